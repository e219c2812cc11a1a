// SPDX-License-Identifier: Apache-2.0
// The text of tensors. Does not throw on any contents.
#include "etude/core/print.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>

#include <fmt/format.h>

#include "etude/base/error.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/host_door.h"

namespace etude {
namespace {

constexpr int64_t kElideAbove = 1000;  // elements; NumPy's threshold
constexpr int64_t kEdge = 3;           // items shown at each end of an elided axis

// A number with the precision of float, or of double if `wide`. The sign of NaN has no meaning.
std::string number(double value, bool wide) {
  if (std::isnan(value)) return "nan";
  return wide ? fmt::format("{:.16g}", value) : fmt::format("{:.8g}", static_cast<float>(value));
}

template <class T>
std::string element(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(+value);
  } else if constexpr (std::is_same_v<T, std::complex<float>> ||
                       std::is_same_v<T, std::complex<double>>) {
    const std::string imag = number(value.imag(), false);
    return number(value.real(), false) + (imag[0] == '-' ? "" : "+") + imag + "j";
  } else {
    const std::string text = number(static_cast<double>(value), std::is_same_v<T, double>);
    const bool integral = text.find_first_of(".eni") == std::string::npos;  // also inf and nan
    return integral ? text + "." : text;
  }
}

class Printer {
 public:
  Printer(const Tensor& x, const void* data)
      : dtype_(x.dtype()),
        shape_(x.shape()),
        data_(static_cast<const char*>(data)),
        elide_(x.size() > kElideAbove) {}

  std::string print(int axis, int64_t offset, int64_t count) const {
    if (axis == shape_.rank()) {
      return visit_dtype(dtype_, [&]<class T>() {
        return element(*reinterpret_cast<const T*>(data_ + offset * itemsize(dtype_)));
      });
    }
    const int64_t size = shape_[axis];
    const int64_t step = size == 0 ? 0 : count / size;
    const bool last = axis + 1 == shape_.rank();
    std::string text = "[";
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) text += last ? ", " : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
      if (elide_ && size > 2 * kEdge && i == kEdge) {
        text += "...";
        i = size - kEdge - 1;
        continue;
      }
      text += print(axis + 1, offset + i * step, step);
    }
    return text + "]";
  }

 private:
  DType dtype_;
  const Shape& shape_;
  const char* data_;
  bool elide_;
};

}  // namespace

std::string internal::elements_text(const Tensor& x) {
  if (!x.has_value()) return "<absent>";
  if (TensorAccess::is_sparse(x)) return "<sparse rows>";
  if (is_unrun(x)) {
    try {
      observe(x);
    } catch (const Error& error) {
      return std::string("<not computed: ") + error.what() + ">";
    }
  }
  if (TensorAccess::is_abstract(x)) return "<not computed>";
  if (x.size() == 0) return "[]";  // its other axes may be of any size
  Tensor home;
  try {
    home = at_home(x);
  } catch (const Error& error) {  // late, of a device with a queue
    return std::string("<not computed: ") + error.what() + ">";
  }
  return Printer(home, host_elements(home)).print(0, 0, x.size());
}

std::string Tensor::to_string() const {
  if (!has_value()) return "Tensor(<absent>)";
  std::string text = internal::elements_text(*this);
  // Rows of the literal are aligned after "Tensor(".
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 8) {
    text.insert(at + 1, 7, ' ');
  }
  return fmt::format("Tensor({}, shape={}, dtype={}, device={})", text, shape().to_string(),
                     name(dtype()), device().to_string());
}

std::ostream& operator<<(std::ostream& out, const Tensor& value) {
  out << internal::elements_text(value);
  if (!value.has_value()) return out;
  std::string sizes = fmt::format("{}", fmt::join(value.shape().sizes(), ", "));
  if (value.rank() == 1) sizes += ",";
  return out << ", shape (" << sizes << "), " << name(value.dtype());
}

}  // namespace etude

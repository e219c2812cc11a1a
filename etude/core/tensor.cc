// SPDX-License-Identifier: Apache-2.0
#include "etude/core/tensor.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/ambient.h"
#include "etude/core/context/pending.h"
#include "etude/core/context/placement.h"
#include "etude/core/copies.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/device_table.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/traced.h"
#include "etude/core/internal/value_observer.h"

namespace etude {
namespace internal {

struct SlicesRep {
  IndexedSlices slices;
};

namespace {

std::atomic<uint64_t> next_value_id{1};
[[gnu::tls_model("initial-exec")]] thread_local constinit ValueObserver* first_observer = nullptr;

TensorRep* new_rep(const Type* type, std::size_t payload) {
  const std::size_t bytes = sizeof(TensorRep) + payload;
  auto* rep = new (allocate_block(bytes)) TensorRep;
  rep->block_bytes = static_cast<uint32_t>(bytes);
  rep->type = type;
  count_tensor(+1);
  return rep;
}

void release(Buffer* buffer) noexcept {
  if (buffer == nullptr) return;
  // Read before the count falls: another thread may free the buffer as soon as it has fallen.
  const auto give_back = buffer->give_back;
  const uint32_t before = buffer->count.fetch_sub(1, std::memory_order_acq_rel);
  if (before == 1) return free_buffer(buffer);
  if (before == 2 && give_back != nullptr) give_back(buffer);
}

// Foreign memory, kept alive by its owner.
struct ForeignBuffer : Buffer {
  std::shared_ptr<const void> owner;
};

}  // namespace

// A thread reserves ids in blocks of kTaken, since all threads share the counter.
uint64_t new_value_id() noexcept {
  constexpr uint64_t kTaken = 1 << 12;
  struct Range {
    uint64_t next, end;
  };
  [[gnu::tls_model("initial-exec")]] thread_local constinit Range mine{0, 0};
  if (mine.next == mine.end) {
    mine.next = next_value_id.fetch_add(kTaken, std::memory_order_relaxed);
    mine.end = mine.next + kTaken;
  }
  return mine.next++;
}

ValueObserver::ValueObserver() noexcept : next_(first_observer) { first_observer = this; }

ValueObserver::~ValueObserver() {
  ValueObserver** place = &first_observer;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
}

void notify_death(uint64_t id) noexcept {
  for (ValueObserver* o = first_observer; o != nullptr; o = o->next_) o->value_died(id);
}

void destroy(TensorRep* rep) noexcept {
  const uint64_t id = rep->id.load(std::memory_order_relaxed);
  if (id != 0) notify_death(id);
  delete rep->slices;
  release(rep->buffer);
  count_tensor(-1);
  free_block(rep, rep->block_bytes);
}

Tensor make_abstract(const Type* type) { return TensorAccess::adopt(new_rep(type, 0)); }

namespace {

Tensor make_with_buffer(const Type* type) {
  const int64_t bytes = type->bytes();
  ETUDE_CHECK(bytes >= 0, "a tensor of type {} needs sizes that are known", type->to_string());
  TensorRep* const rep = new_rep(type, 0);
  Tensor out = TensorAccess::adopt(rep);  // it frees the rep if there is no memory for the buffer
  if (type->device().is_home()) {
    rep->buffer = allocate_buffer(bytes);
  } else {
    DeviceMemory* const memory = memory_of(type->device());
    ETUDE_REQUIRE_CODE(kNotFound, memory != nullptr,
                       "there is no device '{}' in this process. Its devices are: {}",
                       type->device().to_string(), device_list());
    rep->buffer = memory->allocate(bytes);
  }
  rep->data = rep->buffer->data;
  return out;
}

}  // namespace

Tensor make_tensor(const Type* type) {
  const int64_t payload = type->inline_bytes();
  if (payload < 0) return make_with_buffer(type);
  TensorRep* rep = new_rep(type, static_cast<std::size_t>(payload));
  rep->data = rep + 1;
  return TensorAccess::adopt(rep);
}

Tensor make_tensor_over(const Type* type, const void* data, std::shared_ptr<const void> owner) {
  auto buffer = std::make_unique<ForeignBuffer>();
  buffer->count = 2;
  buffer->bytes = static_cast<std::size_t>(type->bytes());
  buffer->data = const_cast<void*>(data);
  buffer->owner = std::move(owner);
  buffer->give_back = [](Buffer* b) noexcept { delete static_cast<ForeignBuffer*>(b); };
  TensorRep* rep = new_rep(type, 0);
  rep->data = buffer->data;
  rep->buffer = buffer.release();
  return TensorAccess::adopt(rep);
}

Tensor with_type(const Tensor& x, const Type* type, int64_t byte_offset) {
  if (!TensorAccess::has_elements(x)) {
    if (type == x.type() && is_unrun(x)) return pending_mark(x)->again();
    observe(x);
  }
  const TensorRep* from = TensorAccess::rep(owner_of_elements(x));
#ifdef ETUDE_ASSERTIONS
  ETUDE_CHECK(from->type->device() == type->device(), "a view of elements on {} has a type on {}",
              from->type->device().to_string(), type->device().to_string());
#endif
  char* data = static_cast<char*>(from->data) + byte_offset;
  const bool is_small = from->type->device().is_home() && type->bytes() <= kInlineBytes / 8;
  if (from->buffer == nullptr || is_small) {
    Tensor out = make_tensor(type);
    std::memcpy(TensorAccess::rep(out)->data, data, static_cast<std::size_t>(type->bytes()));
    return out;
  }
  from->buffer->count.fetch_add(1, std::memory_order_relaxed);
  TensorRep* rep = new_rep(type, 0);
  rep->buffer = from->buffer;
  rep->data = data;
  return TensorAccess::adopt(rep);
}

}  // namespace internal

uint64_t TensorAccess::id(const Tensor& x) {
  std::atomic<uint64_t>& place = x.rep_->id;
  uint64_t id = place.load(std::memory_order_relaxed);
  if (id != 0) return id;
  const uint64_t fresh = internal::new_value_id();
  // A value with one handle is invisible to other threads.
  if (x.rep_->count.load(std::memory_order_relaxed) == 1) {
    place.store(fresh, std::memory_order_relaxed);
    return fresh;
  }
  return place.compare_exchange_strong(id, fresh, std::memory_order_relaxed) ? fresh : id;
}

void TensorAccess::forget_id(Tensor& x) noexcept {
  const uint64_t id = x.rep_->id.load(std::memory_order_relaxed);
  if (id == 0) return;
  x.rep_->id.store(0, std::memory_order_relaxed);
  internal::notify_death(id);
}

void* TensorAccess::writable(Tensor& x) {
  const auto over = [&x]() -> void* {
    forget_id(x);
    internal::count_copy_avoided();
    return x.rep_->data;
  };
  if (is_unique(x)) return over();
  internal::observe(x);
  internal::settle(x);
  if (is_unique(x)) return over();
  internal::note_copy(x, "a write of its elements", {});
  Tensor copy = internal::make_tensor(x.type());
  const auto bytes = static_cast<std::size_t>(x.nbytes());
  internal::DeviceMemory* const memory = internal::memory_of(x.device());
  if (memory == nullptr) {
    std::memcpy(copy.rep_->data, x.rep_->data, bytes);
  } else {
    memory->copy(copy.rep_->data, x.rep_->data, bytes);
  }
  x = std::move(copy);
  return x.rep_->data;
}

void Tensor::throw_absent() {
  ETUDE_THROW(
      kFailedPrecondition,
      "this tensor is absent: it was never given a value, was moved from, or is the gradient "
      "of something unconnected. Ask has_value() first, or GradientTape::explain for the "
      "reason");
}

namespace {

template <class T>
Tensor scalar_of(T value) {
  Tensor out = internal::make_tensor(intern_type(dtype_of<T>, {}));
  std::memcpy(TensorAccess::rep(out)->data, &value, sizeof(T));
  return out;
}

}  // namespace

Tensor Tensor::of_number(bool value) { return scalar_of(value); }
Tensor Tensor::of_number(int value) { return scalar_of<int32_t>(value); }
Tensor Tensor::of_number(int64_t value) {
  const bool fits = value == static_cast<int32_t>(value);
  return fits ? scalar_of(static_cast<int32_t>(value)) : scalar_of(value);
}
Tensor Tensor::of_number(float value) { return scalar_of(value); }
Tensor Tensor::of_number(double value) {
  const DType dtype = ambient().default_dtype;
  if (dtype == kFloat32) return scalar_of(static_cast<float>(value));
  Tensor out = internal::make_tensor(intern_type(dtype, {}));
  internal::convert_elements(TensorAccess::rep(out)->data, dtype, &value, kFloat64, 1);
  return out;
}
Tensor Tensor::of_number(std::complex<float> value) { return scalar_of(value); }
Tensor Tensor::of_number(std::complex<double> value) {
  return scalar_of(
      std::complex<float>(static_cast<float>(value.real()), static_cast<float>(value.imag())));
}

Tensor Tensor::from_host(const void* values, DType dtype, const Shape& shape, int64_t count,
                         CallSite where) {
  return internal::located("tensor", where, [&] {
    ETUDE_REQUIRE(shape.is_known(), "shape [{}] has a negative size. Sizes are 0 or more",
                  fmt::join(shape.sizes(), ","));
    ETUDE_REQUIRE(shape.count() == count,
                  "shape {} needs {} elements, but {} were given. Pass another shape",
                  shape.to_string(), shape.count(), count);
    Tensor out = internal::make_tensor(intern_type(dtype, shape));
    if (count > 0) std::memcpy(out.rep_->data, values, static_cast<std::size_t>(out.nbytes()));
    return internal::in_scope(std::move(out), where);
  });
}

namespace {

// Code that reads elements accepts sparse values and values of other devices too, and refuses
// absent values.
Tensor readable(const Tensor& x, CallSite where = {}) {
  return internal::at_home(to_dense(x), where);
}

}  // namespace

const void* Tensor::typed_data(DType wanted, CallSite where) const {
  return internal::located("", where, [&]() -> const void* {
    ETUDE_REQUIRE(dtype() == wanted,
                  "data() asks for {} of a tensor of {}. Use astype or to_vector", name(wanted),
                  name(dtype()));
    ETUDE_REQUIRE_CODE(kFailedPrecondition, rep_->slices == nullptr,
                       "data() of a sparse value. Use to_vector");
    ETUDE_REQUIRE_CODE(kFailedPrecondition, internal::observe(*this, where), "{}",
                       internal::explain_abstract(*this));
    ETUDE_REQUIRE_CODE(kFailedPrecondition, device().is_home(),
                       "data() is a view of elements in the memory of cpu:0, but this tensor is on "
                       "{}. Use to_vector(), or keep x.to(\"cpu:0\") and view that",
                       device().to_string());
    return internal::host_elements(*this);
  });
}

void Tensor::convert_to(DType wanted, void* out, CallSite where) const {
  internal::located("", where, [&] {
    const Tensor dense = readable(*this, where);
    ETUDE_REQUIRE(!is_complex(dtype()) || is_complex(wanted),
                  "complex elements do not convert to {}. Use real() or abs() first", name(wanted));
    internal::convert_elements(out, wanted, internal::host_elements(dense), dtype(), size());
  });
}

void Tensor::item_into(DType wanted, void* out, CallSite where) const {
  internal::located("", where, [&] {
    ETUDE_REQUIRE(size() == 1,
                  "item() needs exactly one element, but the shape is {}. Index it, or "
                  "use to_vector()",
                  shape().to_string());
    convert_to(wanted, out, where);
  });
}

Tensor::operator bool() const {
  ETUDE_REQUIRE(size() == 1,
                "the truth value of a tensor of shape {} is ambiguous. Use any() or all() first",
                shape().to_string());
  return item<bool>();
}

std::optional<IndexedSlices> Tensor::slices() const {
  if (rep_ == nullptr || rep_->slices == nullptr) return std::nullopt;
  return rep_->slices->slices;
}

Tensor make_slices(IndexedSlices slices) {
  ETUDE_REQUIRE(slices.indices.rank() == 1 && slices.values.rank() >= 1 &&
                    slices.indices.shape()[0] == slices.values.shape()[0],
                "indices {} and values {} must have the same first size",
                slices.indices.shape().to_string(), slices.values.shape().to_string());
  const Shape &rows = slices.values.shape(), &dense = slices.dense_shape;
  bool fits = rows.rank() == dense.rank();
  for (int axis = 1; fits && axis < dense.rank(); ++axis) {
    fits = rows[axis] == dense[axis] || dense[axis] == kAny;
  }
  ETUDE_REQUIRE(fits,
                "values {} are no rows of dense_shape {}: all sizes but the first must be equal",
                rows.to_string(), dense.to_string());
  const Type* type = intern_type(slices.values.dtype(), slices.dense_shape, slices.values.device());
  Tensor out = internal::make_abstract(type);
  TensorAccess::rep(out)->slices = new internal::SlicesRep{std::move(slices)};
  return out;
}

bool same_value(const Tensor& a, const Tensor& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  if (a.type() != b.type()) return false;
  const Tensor x = readable(a), y = readable(b);
  return std::memcmp(internal::host_elements(x), internal::host_elements(y),
                     static_cast<std::size_t>(x.nbytes())) == 0;
}

bool shares_storage(const Tensor& a, const Tensor& b) {
  if (!a.has_value() || !b.has_value()) return false;
  const internal::TensorRep* x = TensorAccess::rep(internal::owner_of_elements(a));
  const internal::TensorRep* y = TensorAccess::rep(internal::owner_of_elements(b));
  return x == y || (x->buffer != nullptr && x->buffer == y->buffer);
}

}  // namespace etude

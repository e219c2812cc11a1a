// SPDX-License-Identifier: Apache-2.0
// Tensor: a dense row-major array with mutable value semantics. Copying is O(1). A write to one
// variable is never visible through another variable. A write to an unshared tensor happens in
// place. Functions on tensors are in etude/ops.h.
#pragma once

#include <complex>
#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/buffer.h"
#include "etude/core/internal/size_reads.h"
#include "etude/core/literal.h"
#include "etude/core/type.h"
#include "etude/version.h"

namespace ETUDE_API etude {

class Tensor;
class TensorSlice;
class IndexItem;
struct IndexedSlices;

namespace internal {

struct SlicesRep;

// The address of a value's elements; null while the value has no elements. The creator of the value
// sets the address. If other threads can already see the value, publish() sets it, once. threads:
// thread-safe to read. Not a std::atomic: the creator's stores are plain stores, since no other
// thread sees the value yet.
class ElementsPointer {
 public:
  operator void*() const noexcept { return __atomic_load_n(&at_, __ATOMIC_ACQUIRE); }
  template <class T>
  explicit operator T*() const noexcept {
    return static_cast<T*>(__atomic_load_n(&at_, __ATOMIC_ACQUIRE));
  }
  ElementsPointer& operator=(void* at) noexcept {
    at_ = at;
    return *this;
  }
  // A thread that reads the pointer also sees every write made before publish().
  void publish(void* at) noexcept { __atomic_store_n(&at_, at, __ATOMIC_RELEASE); }

 private:
  void* at_ = nullptr;
};

// The header of a value, 64 bytes. A payload of up to kInlineBytes follows it. Immutable except for
// the count, the id and, while the count is 1, the data.
struct alignas(64) TensorRep {
  std::atomic<uint32_t> count{1};
  uint32_t block_bytes = 0;
  const Type* type = nullptr;
  ElementsPointer data;         // null: an abstract tensor, or slices that have not been made dense
  Buffer* buffer = nullptr;     // null: the payload follows this header
  std::atomic<uint64_t> id{0};  // value id; 0 until a context needs it
  SlicesRep* slices = nullptr;  // rows of a sparse gradient
};
static_assert(sizeof(TensorRep) == 64);

void destroy(TensorRep* rep) noexcept;

// Converts numbers that a derivative records (diff/active.h) to tensors and back. Derivatives pass
// through both conversions. Specialised in autodiff/internal/numbers.h.
template <class S>
struct NumberCrossing {
  static constexpr bool kIsNumber = false;
};
template <class S>
concept RecordedNumber = NumberCrossing<S>::kIsNumber;

// An overload set. A number type converts implicitly to a Tensor if a call of literal_number() with
// a number of this type is unambiguous.
void literal_number(bool);
void literal_number(int);
void literal_number(int64_t);
void literal_number(float);
void literal_number(double);
void literal_number(std::complex<float>);
void literal_number(std::complex<double>);
template <class T>
concept LiteralNumber = (std::is_arithmetic_v<T> || std::is_same_v<T, std::complex<float>> ||
                         std::is_same_v<T, std::complex<double>>)&&requires(T value) {
  literal_number(value);
};

}  // namespace internal

// threads: thread-compatible, like std::string. Distinct variables may share storage across
// threads.
class Tensor {
 public:
  using Relocatable = void;  // a single pointer, so the object may be moved bytewise

  // Absent: no value. The state of an unconnected gradient and of a moved-from tensor.
  Tensor() noexcept = default;
  // Scalars. int: int32; int64 beyond the range of int32. bool: bool. complex: complex64. float:
  // float32. double: the default dtype (core/context/ambient.h), initially float32. A template, so
  // that {0.5} does not convert to T: Tensor({0.5}) is a row with one axis.
  template <internal::LiteralNumber T>
  Tensor(T value) : Tensor(of_number(value)) {}
  // Nested literals: Tensor({{1.0, 2.0}, {3.0, 4.0}}) is [2, 2] of the default dtype.
  // throws: kInvalidArgument for ragged nesting, naming the level.
  Tensor(std::initializer_list<Literal> rows, CallSite where = CallSite::here());
  // Host data keeps its dtype: std::vector<double> is float64. The default shape has one axis.
  // throws: kInvalidArgument if the number of elements does not match the shape.
  template <class T>
  Tensor(const std::vector<T>& values, CallSite where = CallSite::here());
  template <class T>
  Tensor(std::span<const T> values, const Shape& shape, CallSite where = CallSite::here());
  template <class T>
  Tensor(const std::vector<T>& values, const Shape& shape, CallSite where = CallSite::here());
  // A float32 tensor of one recorded number, or of a row of recorded numbers. Explicit, so that
  // overloads distinguish functions of tensors from functions of numbers.
  template <internal::RecordedNumber S>
  explicit Tensor(const S& value, CallSite where = CallSite::here());
  template <internal::RecordedNumber S>
  explicit Tensor(std::initializer_list<S> row, CallSite where = CallSite::here());

  Tensor(const Tensor& other) noexcept : rep_(other.rep_) {
    if (rep_ != nullptr) rep_->count.fetch_add(1, std::memory_order_relaxed);
  }
  Tensor(Tensor&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Tensor& operator=(const Tensor& other) noexcept {
    Tensor copy(other);
    std::swap(rep_, copy.rep_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(rep_, other.rep_);
    if (this != &other) other.reset();
    return *this;
  }
  ~Tensor() { reset(); }
  // Makes the tensor absent.
  void reset() noexcept {
    if (rep_ == nullptr) return;
    // A count of 1 needs no atomic subtraction, since no other thread can reach the header.
    if (rep_->count.load(std::memory_order_acquire) == 1 ||
        rep_->count.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      internal::destroy(rep_);
    }
    rep_ = nullptr;
  }

  // False for an absent gradient, a default-constructed tensor and a moved-from tensor.
  bool has_value() const noexcept { return rep_ != nullptr; }

  // All functions below throw kFailedPrecondition on an absent tensor. A trace notes each size that
  // host code reads (core/internal/size_reads.h).
  const Type* type(CallSite where = CallSite::here()) const {
    if (where.known()) note_sizes(where);
    return checked()->type;
  }
  DType dtype() const { return checked()->type->dtype(); }
  const Shape& shape(CallSite where = CallSite::here()) const {
    const Type* type = checked()->type;
    return where.known() && internal::watches_sizes(where) ? type->watched_shape() : type->shape();
  }
  int rank() const { return checked()->type->rank(); }
  int64_t size(CallSite where = CallSite::here()) const {
    if (where.known()) note_sizes(where);
    return checked()->type->count();
  }
  int64_t nbytes(CallSite where = CallSite::here()) const {
    if (where.known()) note_sizes(where);
    return checked()->type->bytes();
  }
  // The device of the elements. Calls on this tensor run there, unless a DeviceScope is open.
  Device device() const { return checked()->type->device(); }
  // Returns a copy of this value on `device`, or this tensor if it is already there.
  // Differentiable: a cotangent is copied back to the device of this tensor.
  //
  //   Tensor y = x.to("cpu:1");
  Tensor to(const Device& device, CallSite where = CallSite::here()) const;

  // The only element, converted to T. If T is Real or another recorded number, derivatives pass
  // through the conversion.
  // throws: kInvalidArgument unless the tensor has exactly one element.
  template <class T>
  T item(CallSite where = CallSite::here()) const;
  // All elements in row-major order, converted to T, as in item(). cost: a copy.
  template <class T>
  std::vector<T> to_vector(CallSite where = CallSite::here()) const;
  // A read-only view of the elements. throws: kInvalidArgument if T does not match the dtype.
  template <class T>
  std::span<const T> data(CallSite where = CallSite::here()) const;
  // The truth value of a one-element tensor. throws: kInvalidArgument for any other number of
  // elements.
  explicit operator bool() const;

  // Indexing by NumPy's rules: integers, slice(), kEllipsis, kNewAxis, integer and bool tensors.
  // Reading returns a value. On a non-const tensor the result is assignable: x.at(0) = v,
  // x.at(slice(1, 3)) += w.
  // throws: kOutOfRange, naming index, axis and size.
  template <class... I>
  TensorSlice at(const IndexItem& first, const I&... more) &;
  template <class... I>
  Tensor at(const IndexItem& first, const I&... more) const&;
  template <class... I>
  Tensor at(const IndexItem& first, const I&... more) &&;

  // Element-wise updates, in place if this tensor is unshared. The right side is broadcast to the
  // shape of this tensor.
  // throws: kInvalidArgument if the result would need a larger shape or another dtype.
  Tensor& operator+=(const class Arg& x);
  Tensor& operator-=(const class Arg& x);
  Tensor& operator*=(const class Arg& x);
  Tensor& operator/=(const class Arg& x);

  // The rows of a sparse gradient; empty for a dense tensor.
  std::optional<IndexedSlices> slices() const;

  // "Tensor([[1, 2], [3, 4]], shape=[2, 2], dtype=float32, device=cpu:0)"; large tensors are
  // abbreviated. Does not throw on any contents.
  std::string to_string() const;
  // The identity of this value, for hashing. Copies have the same identity until a write to one of
  // them.
  const void* ref() const noexcept { return rep_; }

 private:
  friend struct TensorAccess;
  template <std::same_as<internal::TensorRep> R>  // a template, so that {0} is not a pointer
  explicit Tensor(R* rep) noexcept : rep_(rep) {}
  const internal::TensorRep* checked() const {
    if (rep_ == nullptr) throw_absent();
    return rep_;
  }
  void note_sizes(CallSite where) const {
    if (internal::watches_sizes(where)) static_cast<void>(checked()->type->watched_shape().begin());
  }
  [[noreturn]] static void throw_absent();
  static Tensor of_number(bool value);
  static Tensor of_number(int value);
  static Tensor of_number(int64_t value);
  static Tensor of_number(float value);
  static Tensor of_number(double value);
  static Tensor of_number(std::complex<float> value);
  static Tensor of_number(std::complex<double> value);
  static Tensor from_host(const void* values, DType dtype, const Shape& shape, int64_t count,
                          CallSite where);
  const void* typed_data(DType dtype, CallSite where) const;
  void convert_to(DType dtype, void* out, CallSite where) const;
  void item_into(DType dtype, void* out, CallSite where) const;

  internal::TensorRep* rep_ = nullptr;
};

// A sparse tensor of shape `dense_shape`: values[i] is the row at indices[i], and all other rows
// are 0. Rows of repeated indices are added.
struct IndexedSlices {
  Tensor indices;      // int32 or int64 [n]
  Tensor values;       // [n, ...]
  Shape dense_shape;   // sizes may be kAny
  CallSite from = {};  // the call whose gradient this is, if known
};

// Prints `value` with its shape and dtype.
std::ostream& operator<<(std::ostream& out, const Tensor& value);
// Whether both tensors have the same type and the same bits.
bool same_value(const Tensor& a, const Tensor& b);
// Whether the tensors share their elements, so that a write to one copies them. For tests.
bool shares_storage(const Tensor& a, const Tensor& b);
// A tensor that holds slices. throws: kInvalidArgument if the sizes do not agree.
Tensor make_slices(IndexedSlices slices);
// The dense form of a tensor that holds slices. Returns other tensors unchanged.
// throws: kFailedPrecondition if the dense shape is not known.
Tensor to_dense(const Tensor& x);

namespace internal {

// A new tensor with uninitialised elements. throws: kResourceExhausted.
Tensor make_tensor(const Type* type);
// An abstract tensor: a tensor with a type and no elements.
Tensor make_abstract(const Type* type);
// A tensor over row-major memory that `owner` keeps alive. The memory is never written: the first
// write copies.
Tensor make_tensor_over(const Type* type, const void* data, std::shared_ptr<const void> owner);
// The bytes of x from `byte_offset` on, as elements of `type`. A large result shares the storage
// of x.
Tensor with_type(const Tensor& x, const Type* type, int64_t byte_offset = 0);

}  // namespace internal
}  // namespace etude

#include "etude/core/tensor_inline.h"

// SPDX-License-Identifier: Apache-2.0
// Source: CPython, Lib/pickletools.py, protocols 2 to 5; PyTorch, torch/serialization.py.
#include "etude/io/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <unordered_map>

#include "etude/base/check.h"

namespace etude::internal {
namespace {

using Kind = PickleValue::Kind;

constexpr std::array<std::pair<std::string_view, DType>, 12> kStorages = {
    {{"torch.FloatStorage", kFloat32},
     {"torch.DoubleStorage", kFloat64},
     {"torch.HalfStorage", kFloat16},
     {"torch.BFloat16Storage", kBFloat16},
     {"torch.LongStorage", kInt64},
     {"torch.IntStorage", kInt32},
     {"torch.ShortStorage", kInt16},
     {"torch.CharStorage", kInt8},
     {"torch.ByteStorage", kUInt8},
     {"torch.BoolStorage", kBool},
     {"torch.ComplexFloatStorage", kComplex64},
     {"torch.ComplexDoubleStorage", kComplex128}}};
// Memory of a slot of the stack, of the marks or of a list that has just grown, and of a slot of
// the memo.
constexpr uint64_t kSlotBytes = 2 * sizeof(void*), kMemoBytes = 64;
constexpr std::size_t kMostLongBytes = 1024;  // of an integer; the work is the square of it
constexpr std::size_t kMostSizes = 64;
constexpr std::string_view kOrderedDict = "collections.OrderedDict", kSize = "torch.Size",
                           kTensorName = "torch._utils._rebuild_tensor_v2",
                           kParameter = "torch._utils._rebuild_parameter";
constexpr std::array<std::string_view, 12> kDtypeNames = {
    "torch.float32", "torch.float64", "torch.float16",   "torch.bfloat16",
    "torch.int64",   "torch.int32",   "torch.int16",     "torch.int8",
    "torch.uint8",   "torch.bool",    "torch.complex64", "torch.complex128"};

bool is_known(std::string_view name) {
  return name == kOrderedDict || name == kSize || name == kTensorName || name == kParameter ||
         std::any_of(kStorages.begin(), kStorages.end(),
                     [&](const auto& row) { return row.first == name; });
}

// The decimal digits of an integer in two's complement, little-endian.
std::string decimal(std::span<const uint8_t> bytes, bool is_negative) {
  std::vector<uint8_t> rest(bytes.begin(), bytes.end());
  if (is_negative) {  // to its magnitude
    unsigned carry = 1;
    for (uint8_t& byte : rest) {
      carry += static_cast<uint8_t>(~byte);
      byte = static_cast<uint8_t>(carry);
      carry >>= 8;
    }
  }
  std::string out;
  while (std::any_of(rest.begin(), rest.end(), [](uint8_t byte) { return byte != 0; })) {
    unsigned remainder = 0;
    for (std::size_t i = rest.size(); i-- > 0;) {
      const unsigned value = remainder << 8 | rest[i];
      rest[i] = static_cast<uint8_t>(value / 10);
      remainder = value % 10;
    }
    out += static_cast<char>('0' + remainder);
  }
  if (is_negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out;
}

bool is_sizes(const PickleValue& value) {
  return value.kind == Kind::kTuple && value.items.size() <= kMostSizes &&
         std::all_of(value.items.begin(), value.items.end(),
                     [](const PickleValue* item) { return item->kind == Kind::kWhole; });
}

}  // namespace

class PickleMachine {
 public:
  PickleMachine(Pickle& out, std::span<const uint8_t> bytes, uint64_t offset, ReadBudget& budget)
      : values_(out.values_),
        bytes_(bytes),
        offset_(offset),
        name_(budget.name()),
        budget_(budget) {}

  const PickleValue* run() {
    while (!is_stopped_) {
      op_at_ = at_;
      step(number(1));
    }
    if (at_ != bytes_.size()) fail("more bytes follow after the end of the pickle");
    PickleValue* root = pop();
    if (!stack_.empty()) fail("values are left over at the end of the pickle");
    return root;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    ETUDE_THROW(kDataLoss, "{}: offset {}: {}", name_, offset_ + op_at_, what);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    ETUDE_THROW(kUnimplemented,
                "{}: offset {}: {}. Etude reads tensors, numbers and texts in dicts and lists, and "
                "runs nothing that a file brings; save model.state_dict()",
                name_, offset_ + op_at_, what);
  }

  std::span<const uint8_t> take(uint64_t n) {
    if (n > bytes_.size() - at_) {
      op_at_ = bytes_.size();
      fail("the pickle is cut off here");
    }
    const auto out = bytes_.subspan(at_, n);
    at_ += n;
    return out;
  }
  uint64_t number(int n) {
    uint64_t value = 0;
    const auto part = take(static_cast<uint64_t>(n));
    for (std::size_t i = part.size(); i-- > 0;) value = value << 8 | part[i];
    return value;
  }
  std::string text(uint64_t n) {
    const auto part = take(n);
    return {part.begin(), part.end()};
  }
  std::string line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), '\n');
    charge(static_cast<uint64_t>(end - rest.begin()));
    std::string out(rest.begin(), end);
    take(out.size() + 1);
    return out;
  }

  // Counts memory before it is taken.
  void charge(uint64_t bytes) { budget_.need_bytes(bytes, offset_ + op_at_); }

  PickleValue* make(Kind kind) {
    budget_.need_items(1, offset_ + op_at_);
    charge(sizeof(PickleValue));
    values_.emplace_back().kind = kind;
    return &values_.back();
  }
  void push(PickleValue* value) {
    charge(kSlotBytes);
    stack_.push_back(value);
  }
  void push_text(uint64_t n) {
    charge(std::min<uint64_t>(n, bytes_.size()));
    PickleValue* value = make(Kind::kText);
    value->text = text(n);
    push(value);
  }
  // An integer of n bytes, in two's complement and little-endian.
  void push_long(uint64_t n) {
    if (n > kMostLongBytes) refuse(fmt::format("the pickle has an integer of {} bytes", n));
    const auto part = take(n);
    const bool is_negative = n > 0 && (part[n - 1] & 0x80) != 0;
    uint64_t value = is_negative ? ~uint64_t{0} : 0;
    for (std::size_t i = std::min<std::size_t>(n, 8); i-- > 0;) value = value << 8 | part[i];
    const uint8_t filling = is_negative ? 0xFF : 0;
    const bool fits =
        std::all_of(part.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(n, 8)),
                    part.end(), [&](uint8_t byte) { return byte == filling; }) &&
        (static_cast<int64_t>(value) < 0) == is_negative;
    if (fits) return push_whole(static_cast<int64_t>(value));
    budget_.need_items(n * n / 64, offset_ + op_at_);  // the time of its digits
    PickleValue* made = make(Kind::kLarge);
    made->text = decimal(part, is_negative);
    charge(made->text.size());
    push(made);
  }
  void push_whole(int64_t number, Kind kind = Kind::kWhole) {
    PickleValue* value = make(kind);
    value->whole = number;
    push(value);
  }
  PickleValue* pop() {
    if (stack_.size() == (marks_.empty() ? 0 : marks_.back())) fail("a value is missing");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    PickleValue* value = pop();
    push(value);
    return value;
  }
  // Removes the last mark, and the values above it, which it returns.
  std::vector<const PickleValue*> pop_marked() {
    if (marks_.empty()) fail("a mark is missing");
    charge(kSlotBytes * (stack_.size() - marks_.back()));
    const std::vector<const PickleValue*> out(
        stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  void push_tuple(std::vector<const PickleValue*> items) {
    PickleValue* value = make(Kind::kTuple);
    value->items = std::move(items);
    push(value);
  }
  void push_tuple_of(std::size_t n) {
    std::vector<const PickleValue*> items(n);
    while (n > 0) items[--n] = pop();
    push_tuple(std::move(items));
  }
  void add(Kind kind, const std::vector<const PickleValue*>& items) {
    PickleValue* to = top();
    if (to->kind != kind)
      fail(kind == Kind::kDict ? "there is no dict to fill" : "there is no list to fill");
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a key has no value");
    charge(kSlotBytes * items.size());
    to->items.insert(to->items.end(), items.begin(), items.end());
  }
  void remember(uint64_t key) {
    PickleValue* value = top();
    const auto [at, is_new] = memo_.try_emplace(key, value);
    at->second = value;
    if (is_new) charge(kMemoBytes);
  }
  void recall(uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("a value is recalled that was not kept");
    push(found->second);
  }

  void step(uint64_t op) {
    if (step_values(op) || step_containers(op)) return;
    switch (op) {
      case 0x80:  // PROTO
        if (number(1) > 5) refuse("the pickle has a newer protocol");
        return;
      case 0x95:  // FRAME
        number(8);
        return;
      case 'q':  // BINPUT
        return remember(number(1));
      case 'r':  // LONG_BINPUT
        return remember(number(4));
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'h':  // BINGET
        return recall(number(1));
      case 'j':  // LONG_BINGET
        return recall(number(4));
      case 'c': {  // GLOBAL
        const std::string module = line();
        return push_name(module + "." + line());
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue *name = pop(), *module = pop();
        if (name->kind != Kind::kText || module->kind != Kind::kText) fail("a name is no text");
        charge(module->text.size() + name->text.size());
        return push_name(module->text + "." + name->text);
      }
      case 'Q':  // BINPERSID
        return push_storage(*pop());
      case 'R': {  // REDUCE
        const PickleValue *arguments = pop(), *function = pop();
        return call(*function, *arguments);
      }
      case 'b': {  // BUILD
        const PickleValue* state = pop();
        if (top()->kind != Kind::kDict || state->kind != Kind::kDict) {
          refuse("the pickle sets the state of an object");
        }
        return;  // versions of layers in state dicts
      }
      case '.':  // STOP
        is_stopped_ = true;
        return;
      default:
        refuse(fmt::format("the pickle has the instruction 0x{:02x}", op));
    }
  }

  bool step_values(uint64_t op) {
    switch (op) {
      case 'N':
        push(make(Kind::kNone));
        return true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push_whole(op == 0x88, Kind::kTruth);
        return true;
      case 'K':  // BININT1
        push_whole(static_cast<int64_t>(number(1)));
        return true;
      case 'M':  // BININT2
        push_whole(static_cast<int64_t>(number(2)));
        return true;
      case 'J':  // BININT
        push_whole(static_cast<int32_t>(number(4)));
        return true;
      case 0x8a:  // LONG1
        push_long(number(1));
        return true;
      case 0x8b:  // LONG4
        push_long(number(4));
        return true;
      case 'G': {  // BINFLOAT, big-endian
        const auto part = take(8);
        uint64_t value = 0;
        for (const uint8_t byte : part) value = value << 8 | byte;
        PickleValue* made = make(Kind::kReal);
        made->real = std::bit_cast<double>(value);
        push(made);
        return true;
      }
      case 'X':  // BINUNICODE
        push_text(number(4));
        return true;
      case 0x8c:  // SHORT_BINUNICODE
        push_text(number(1));
        return true;
      case 0x8d:  // BINUNICODE8
        push_text(number(8));
        return true;
      default:
        return false;
    }
  }

  bool step_containers(uint64_t op) {
    switch (op) {
      case '}':  // EMPTY_DICT
        push(make(Kind::kDict));
        return true;
      case ']':  // EMPTY_LIST
        push(make(Kind::kList));
        return true;
      case ')':  // EMPTY_TUPLE
        push(make(Kind::kTuple));
        return true;
      case '(':  // MARK
        charge(kSlotBytes);
        marks_.push_back(stack_.size());
        return true;
      case 't':  // TUPLE
        push_tuple(pop_marked());
        return true;
      case 0x85:  // TUPLE1
      case 0x86:
      case 0x87:
        push_tuple_of(op - 0x84);
        return true;
      case 's': {  // SETITEM
        const PickleValue *value = pop(), *key = pop();
        add(Kind::kDict, {key, value});
        return true;
      }
      case 'u':  // SETITEMS
        add(Kind::kDict, pop_marked());
        return true;
      case 'a': {  // APPEND
        const PickleValue* value = pop();
        add(Kind::kList, {value});
        return true;
      }
      case 'e':  // APPENDS
        add(Kind::kList, pop_marked());
        return true;
      default:
        return false;
    }
  }

  void push_name(const std::string& name) {
    const bool is_dtype =
        std::find(kDtypeNames.begin(), kDtypeNames.end(), name) != kDtypeNames.end();
    if (!is_dtype && !is_known(name)) refuse(fmt::format("the pickle imports '{:.200}'", name));
    PickleValue* value = make(is_dtype ? Kind::kText : Kind::kName);
    value->text = name;
    push(value);
  }

  // ("storage", torch.FloatStorage, "0", "cpu", 12)
  void push_storage(const PickleValue& id) {
    const bool fits = id.kind == Kind::kTuple && id.items.size() == 5 &&
                      id.items[0]->kind == Kind::kText && id.items[0]->text == "storage" &&
                      id.items[1]->kind == Kind::kName && id.items[2]->kind == Kind::kText &&
                      id.items[4]->kind == Kind::kWhole && id.items[4]->whole >= 0;
    if (!fits) fail("this is no storage of a tensor");
    const auto row = std::find_if(kStorages.begin(), kStorages.end(), [&](const auto& known) {
      return known.first == id.items[1]->text;
    });
    if (row == kStorages.end()) fail("this is no storage of a tensor");
    PickleValue* value = make(Kind::kStorage);
    value->dtype = row->second;
    charge(id.items[2]->text.size());
    value->text = id.items[2]->text;
    value->whole = id.items[4]->whole;
    push(value);
  }

  void call(const PickleValue& function, const PickleValue& arguments) {
    if (function.kind != Kind::kName || arguments.kind != Kind::kTuple)
      fail("this cannot be called");
    const auto& in = arguments.items;
    if (function.text == kOrderedDict && in.empty()) {
      push(make(Kind::kDict));
    } else if (function.text == kSize && in.size() == 1 && is_sizes(*in[0])) {
      charge(kSlotBytes * in[0]->items.size());
      push_tuple(in[0]->items);
    } else if (function.text == kParameter && in.size() == 3 && in[0]->kind == Kind::kTensor) {
      push(const_cast<PickleValue*>(in[0]));  // a parameter is its tensor; all values are ours
    } else if (function.text == kTensorName && in.size() >= 6 && in[0]->kind == Kind::kStorage &&
               in[1]->kind == Kind::kWhole && is_sizes(*in[2]) && is_sizes(*in[3]) &&
               in[2]->items.size() == in[3]->items.size()) {
      PickleValue* value = make(Kind::kTensor);
      value->dtype = in[0]->dtype;
      value->whole = in[1]->whole;
      value->items = {in[0], in[2], in[3]};
      push(value);
    } else {
      fail(fmt::format("{} is called with other arguments than PyTorch's", function.text));
    }
  }

  std::deque<PickleValue>& values_;
  std::span<const uint8_t> bytes_;
  uint64_t offset_;
  std::string_view name_;
  ReadBudget& budget_;
  uint64_t at_ = 0, op_at_ = 0;
  bool is_stopped_ = false;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(std::span<const uint8_t> bytes, uint64_t offset, ReadBudget& budget)
    : root_(PickleMachine(*this, bytes, offset, budget).run()) {}

}  // namespace etude::internal

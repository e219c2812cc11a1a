// SPDX-License-Identifier: Apache-2.0
#include "etude/core/device_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>

#include "etude/base/check.h"

namespace etude {
namespace {

// The kinds of devices that names may state, as written in whole names. "CUDA" is read as "GPU".
constexpr std::array<std::string_view, 7> kTypes = {"CPU", "GPU", "CUDA", "XLA",
                                                    "TPU", "SIM", "TEST"};
constexpr int kMaxIndex = 65535;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string in_capitals(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

// Reads one name. Each fault quotes the whole name.
class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  DeviceName read() {
    if (text_.empty()) return {};
    if (text_[0] != '/') {
      read_part(text_);
      return std::move(name_);
    }
    std::size_t at = 0;
    while (at < text_.size()) {
      const std::size_t end = std::min(text_.find('/', at + 1), text_.size());
      read_part(text_.substr(at + 1, end - at - 1));
      at = end;
    }
    return std::move(name_);
  }

 private:
  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> fact, A&&... args) const {
    ETUDE_THROW(kInvalidArgument,
                "the device name '{}' {}. Write it like \"cpu:0\", \"gpu:1\" or "
                "\"/job:worker/task:1/device:GPU:0\"",
                text_, fmt::format(fact, std::forward<A>(args)...));
  }

  // "job:worker", "task:2", "device:GPU:0", "gpu:0", "gpu".
  void read_part(std::string_view part) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    const std::string_view word = part.substr(0, colon);
    const bool has_value = colon < part.size();
    const std::string_view value = has_value ? part.substr(colon + 1) : std::string_view();
    if (word.empty()) fail("has a part without a word ('{}')", part);
    if (word == "job") return read_job(has_value, value);
    if (word == "replica") return read_number("replica", has_value, value, name_.replica);
    if (word == "task") return read_number("task", has_value, value, name_.task);
    if (word == "device") return read_device(has_value, value);
    read_type(word, has_value, value);
  }

  void claim(bool& is_taken, std::string_view word) {
    if (is_taken) fail("has two parts '{}'", word);
    is_taken = true;
  }

  void require_value(std::string_view word, bool has_value, std::string_view value) const {
    if (!has_value || value.empty()) fail("has no value after '{}'", word);
  }

  void read_job(bool has_value, std::string_view value) {
    claim(has_job_, "job");
    require_value("job:", has_value, value);
    if (value == "*") return;
    if (!is_letter(value[0])) {
      fail("has the job '{}', but a job starts with a letter", value);
    }
    for (const char c : value) {
      if (!is_letter(c) && !is_digit(c) && c != '_') {
        fail("has the job '{}', but a job has letters, digits and '_' only", value);
      }
    }
    name_.job = std::string(value);
  }

  void read_number(std::string_view word, bool has_value, std::string_view value,
                   std::optional<int>& place) {
    claim(word == "task" ? has_task_ : has_replica_, word);
    require_value(fmt::format("{}:", word), has_value, value);
    if (value != "*") place = number(word, value);
  }

  int number(std::string_view word, std::string_view value) const {
    if (value[0] == '-') fail("has the {} {}, but numbers are 0 or more", word, value);
    int out = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, fault] = std::from_chars(value.data(), end, out);
    if (fault == std::errc::result_out_of_range || (fault == std::errc() && out > kMaxIndex)) {
      fail("has the {} {}, but numbers are at most {}", word, value, kMaxIndex);
    }
    if (fault != std::errc()) fail("has '{}' as its {}, which is no number", value, word);
    if (stop != end) {
      fail("has further text '{}' after the {} {}",
           std::string_view(stop, static_cast<std::size_t>(end - stop)), word, out);
    }
    return out;
  }

  // After "device:": "GPU:0", "GPU", "*", "*:1".
  void read_device(bool has_value, std::string_view value) {
    require_value("device:", has_value, value);
    const std::size_t colon = std::min(value.find(':'), value.size());
    const bool has_index = colon < value.size();
    read_type(value.substr(0, colon), has_index,
              has_index ? value.substr(colon + 1) : std::string_view());
  }

  void read_type(std::string_view word, bool has_index, std::string_view index) {
    std::string type = in_capitals(word);
    if (word != "*" && std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
      fail(
          "has the unknown word '{}'; parts are job, replica, task, device, and kinds of devices "
          "are cpu, gpu, xla, tpu",
          word);
    }
    if (type == "CUDA") type = "GPU";
    claim(has_device_, "device");
    if (word != "*") name_.type = std::move(type);
    if (!has_index) return;
    require_value(fmt::format("{}:", word), has_index, index);
    if (index != "*") name_.index = number("index", index);
  }

  std::string_view text_;
  DeviceName name_;
  bool has_job_ = false, has_replica_ = false, has_task_ = false, has_device_ = false;
};

template <class T>
bool differ(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() && b.has_value() && *a != *b;
}

template <class T>
void require_equal(std::string_view part, const std::optional<T>& outer,
                   const std::optional<T>& inner) {
  ETUDE_REQUIRE(!differ(outer, inner),
                "the {} is '{}' in one name and '{}' in the other. Leave the part out of one name, "
                "or write the same value",
                part, *outer, *inner);
}

}  // namespace

DeviceName DeviceName::parse(std::string_view text) { return NameReader(text).read(); }

DeviceName DeviceName::merged_strictly(const DeviceName& inner) const {
  require_equal("job", job, inner.job);
  require_equal("replica", replica, inner.replica);
  require_equal("task", task, inner.task);
  require_equal("type", type, inner.type);
  require_equal("index", index, inner.index);
  return merged(inner);
}

DeviceName DeviceName::merged(const DeviceName& inner) const {
  DeviceName out = *this;
  if (differ(out.job, inner.job)) {
    out.replica.reset();
    out.task.reset();
  }
  if (differ(out.type, inner.type)) out.index.reset();
  if (inner.job) out.job = inner.job;
  if (inner.replica) out.replica = inner.replica;
  if (inner.task) out.task = inner.task;
  if (inner.type) out.type = inner.type;
  if (inner.index) out.index = inner.index;
  return out;
}

bool DeviceName::fits(const DeviceName& full) const {
  return !differ(job, full.job) && !differ(replica, full.replica) && !differ(task, full.task) &&
         !differ(type, full.type) && !differ(index, full.index);
}

bool DeviceName::is_empty() const { return *this == DeviceName(); }

std::string DeviceName::to_string() const {
  std::string out;
  if (job) out += fmt::format("/job:{}", *job);
  if (replica || (job && task)) out += fmt::format("/replica:{}", replica.value_or(0));
  if (task) out += fmt::format("/task:{}", *task);
  if (type || index) {
    out += fmt::format("/device:{}:{}", type.value_or("*"),
                       index ? std::to_string(*index) : std::string("*"));
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const DeviceName& name) {
  return out << name.to_string();
}

}  // namespace etude

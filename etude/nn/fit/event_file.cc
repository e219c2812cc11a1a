// SPDX-License-Identifier: Apache-2.0
#include "etude/nn/fit/event_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include <unistd.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/files/crc32c.h"
#include "etude/files/png_bytes.h"
#include "etude/nn/fit/event_message.h"
#include "etude/nn/fit/graph_def.h"

namespace etude::nn {
namespace {

using internal::Message;
using internal::put;

// CRC-32C as records of TensorFlow have it: rotated, and with a constant added.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t c = etude::internal::crc32c(0, bytes);
  return ((c >> 15) | (c << 17)) + 0xA282EAD8U;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Unique in this process, and by host, process and second among others.
std::string file_name() {
  static std::atomic<int> serial = 0;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(unix_seconds()),
                     host[0] != '\0' ? host.data() : "localhost", ::getpid(), serial++);
}

// tensorflow.HistogramProto: up to 30 buckets of equal width.
std::string histogram_message(const std::vector<double>& values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = kInfinity, high = -kInfinity, n = 0, sum = 0, squares = 0;
  for (const double x : values) {
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x;
    squares += x * x;
    n += 1;
  }
  if (n == 0) low = high = 0;
  const double width = (high - low) / 30;
  const bool is_point = !(width > 0) || !std::isfinite(width);
  std::vector<double> limits, counts(is_point ? 1 : 30, 0);
  for (std::size_t i = 1; i <= counts.size(); ++i) {
    limits.push_back(i == counts.size() ? high : low + width * static_cast<double>(i));
  }
  for (const double x : values) {
    if (!std::isfinite(x)) continue;
    const auto at = is_point ? 0 : static_cast<std::size_t>((x - low) / width);
    counts[std::min(at, counts.size() - 1)] += 1;
  }
  return Message()
      .real(1, low)
      .real(2, high)
      .real(3, n)
      .real(4, sum)
      .real(5, squares)
      .reals(6, limits)
      .reals(7, counts)
      .text();
}

// tensorflow.Summary.Value of a text: a tensor of one string, for the plugin "text".
std::string text_value(std::string_view tag, std::string_view text) {
  constexpr uint64_t kString = 7, kTensorClass = 2;
  const std::string plugin = Message().bytes(1, "text").text();
  const std::string metadata = Message().bytes(1, plugin).integer(4, kTensorClass).text();
  const std::string tensor = Message().integer(1, kString).bytes(2, "").bytes(8, text).text();
  return Message().bytes(1, tag).bytes(9, metadata).bytes(8, tensor).text();
}

}  // namespace

EventFile::EventFile(const std::string& folder, CallSite where) {
  etude::internal::located("EventFile", where, [&] {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    path_ = (std::filesystem::path(folder) / file_name()).string();
    errno = error.value();
    require(!error);
    file_.reset(std::fopen(path_.c_str(), "wb"));
    require(file_ != nullptr);
    record(Message().real(1, unix_seconds()).bytes(3, "brain.Event:2").text());
    flush();
  });
}

void EventFile::require(bool is_done) const {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, is_done,
                     "cannot write '{}': {}. Give a folder that can be made and has room", path_,
                     std::strerror(errno));
}

// Length, its checksum, the bytes and theirs.
void EventFile::record(std::string_view event) {
  std::string out;
  put(out, static_cast<uint64_t>(event.size()));
  put(out, masked_crc(out));
  out += event;
  put(out, masked_crc(event));
  require(std::fwrite(out.data(), 1, out.size(), file_.get()) == out.size());
}

void EventFile::add(int64_t step, std::string_view value) {
  const std::string summary = Message().bytes(1, value).text();
  record(Message()
             .real(1, unix_seconds())
             .integer(2, static_cast<uint64_t>(step))
             .bytes(5, summary)
             .text());
}

void EventFile::scalar(std::string_view tag, double value, int64_t step) {
  add(step, Message().bytes(1, tag).number(2, static_cast<float>(value)).text());
}

void EventFile::histogram(std::string_view tag, const Tensor& values, int64_t step) {
  const std::string message = histogram_message(values.to_vector<double>());
  add(step, Message().bytes(1, tag).bytes(5, message).text());
}

void EventFile::image(std::string_view tag, const Tensor& image, int64_t step, CallSite where) {
  const std::vector<uint8_t> file = etude::internal::located(
      "EventFile::image", where, [&] { return etude::internal::png_of_image(image); });
  const int64_t channels = image.rank() == 3 ? image.shape()[2] : 1;
  const std::string message =
      Message()
          .integer(1, static_cast<uint64_t>(image.shape()[0]))
          .integer(2, static_cast<uint64_t>(image.shape()[1]))
          .integer(3, static_cast<uint64_t>(channels))
          .bytes(4, {reinterpret_cast<const char*>(file.data()), file.size()})
          .text();
  add(step, Message().bytes(1, tag).bytes(4, message).text());
}

void EventFile::text(std::string_view tag, std::string_view text, int64_t step) {
  add(step, text_value(tag, text));
}

void EventFile::graph(const Graph& graph, const GraphNames& names, CallSite where) {
  const std::string message = etude::internal::located(
      "EventFile::graph", where, [&] { return internal::graph_def(graph, names); });
  record(Message().real(1, unix_seconds()).bytes(4, message).text());
}

void EventFile::flush() { require(std::fflush(file_.get()) == 0); }

namespace internal {

Callback event_callback(std::string folder, const TensorboardOptions& options,
                        AddHistograms histograms, CallSite where) {
  etude::internal::check_options("tensorboard", options, where);
  struct Run {
    std::string folder;
    TensorboardOptions options;
    AddHistograms histograms;
    std::optional<EventFile> file;
    int64_t batches = 0;
  };
  auto run = std::make_shared<Run>(
      Run{std::move(folder), options, std::move(histograms), std::nullopt, 0});
  return [run](Event event, FitState& state) {
    if (!run->file) run->file.emplace(run->folder);
    EventFile& file = *run->file;
    if (event == Event::kBatchEnd) {
      const int64_t every = run->options.every_steps;
      if (++run->batches % std::max<int64_t>(every, 1) != 0 || every == 0) return;
      file.scalar("batch/loss", state.batch_loss, run->batches);
      if (!state.history.gradient_norms.empty()) {
        file.scalar("batch/gradient_norm", state.gradient_norm, run->batches);
      }
    } else if (event == Event::kEpochEnd) {
      const auto epoch = static_cast<int64_t>(state.epoch + 1);
      for (const auto& [name, value] : numbers_of(state.history.epochs.back())) {
        file.scalar("epoch/" + name, value, epoch);
      }
      if (run->histograms) run->histograms(file, epoch);
      file.flush();
    } else if (event == Event::kFitEnd) {
      file.flush();
    }
  };
}

}  // namespace internal

Callback tensorboard(std::string folder, const TensorboardOptions& options, CallSite where) {
  return internal::event_callback(std::move(folder), options, nullptr, where);
}

}  // namespace etude::nn

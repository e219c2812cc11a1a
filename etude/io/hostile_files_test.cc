// SPDX-License-Identifier: Apache-2.0
// Small files that describe much: deep brackets, references to one value, compressed zeros. Each is
// an error before much memory or time is taken, whatever the format.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/files/read_limits.h"
#include "etude/files/zip_file.h"
#include "etude/io/csv.h"
#include "etude/io/json.h"
#include "etude/io/npy.h"
#include "etude/io/png.h"
#include "etude/io/safetensors.h"
#include "etude/io/text_lines.h"
#include "etude/io/torch_file.h"
#include "etude/ops.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::io::hostile_files_test {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using tests::expect_error;

constexpr const char* kRaise = "raise this limit by set_read_limits()";

struct Usage {
  int64_t peak_bytes;  // the most memory that this process has had
  double seconds;      // of the processor
};
Usage usage() {
  rusage now{};
  getrusage(RUSAGE_SELF, &now);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {int64_t{now.ru_maxrss} * 1024, seconds(now.ru_utime) + seconds(now.ru_stime)};
}

// An error of the budget, with little memory in less than two seconds.
void expect_refused(const std::function<void()>& read, std::string_view fragment) {
  [[maybe_unused]] const Usage before = usage();
  expect_error(read, ErrorCode::kResourceExhausted, {fragment, kRaise});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(usage().seconds - before.seconds, 2.0);
  EXPECT_LT(usage().peak_bytes - before.peak_bytes, int64_t{256} << 20);
#endif
}

class HostileFiles : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  fs::path put(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  // An archive with one deflated entry.
  fs::path zip(const std::string& name, const std::string& entry, std::string_view content) const {
    etude::internal::AtomicFile file(path(name));
    etude::internal::ZipWriter archive(file);
    archive.add(entry, {}, {reinterpret_cast<const uint8_t*>(content.data()), content.size()},
                true);
    archive.finish();
    file.commit();
    return path(name);
  }
  fs::path pickle(const std::string& name, const std::string& program) const {
    return zip(name, "archive/data.pkl", program);
  }
  const TempFolder folder_;
};

std::string repeated(std::string_view part, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += part;
  return out;
}

TEST_F(HostileFiles, DeepBracketsAreNoRecursion) {
  for (const std::size_t levels : {101u, 100'000u, 3'000'000u}) {
    const std::string open(levels, '['), close(levels, ']');
    expect_refused([&] { from_json(open + close); },
                   "JSON: offset 100: it is nested more than 100");
    expect_refused(
        [&] { from_json(R"({"dtype":)" + open + close + R"(,"shape":[1],"data":[1]})"); },
        "it is nested more than 100 levels deep");
    expect_refused([&] { from_json(repeated("{\"a\":", levels)); }, "it is nested more than 100");
  }
  expect_error([] { from_json("{\"dtype\":\"\xff\xfe\",\"shape\":[1],\"data\":[1]}"); },
               ErrorCode::kDataLoss, {"this is not JSON"});
  expect_refused(
      [&] {
        load_torch(
            pickle("deep.pt", "\x80\x02" + std::string(3000, ']') + std::string(2999, 'a') + "."));
      },
      "deep.pt: offset ");
}

TEST_F(HostileFiles, PicklesAreCountedInAllTheyBuild) {
  constexpr std::size_t kTimes = 5'000'000;
  const std::string begin = "\x80\x02N";
  const std::vector<std::pair<const char*, std::string>> programs = {
      {"memo", begin + repeated("\x94", kTimes) + "."},
      {"marks", begin + repeated("(", kTimes) + "."},
      {"gets", begin + "q" + std::string(1, '\0') + repeated(std::string("h\0", 2), kTimes) + "."},
      {"nones", begin + repeated("N", kTimes) + "."},
      {"tuples", begin + repeated("\x85", kTimes) + "."},
      {"append",
       "\x80\x02]q" + std::string(1, '\0') + "(" + repeated(std::string("h\0", 2), kTimes) + "e."}};
  for (const auto& [name, program] : programs) {
    const fs::path file = pickle(std::string(name) + ".pt", program);
    EXPECT_LT(fs::file_size(file), 100'000u);
    expect_refused([&] { load_torch(file); }, std::string(name) + ".pt: offset ");
  }
  // One value in 2^60 places.
  std::string tree = std::string("\x80\x02K\x01q\0", 6);
  for (char i = 0; i < 60; ++i) {
    tree += std::string{'h', i, '\x86', 'q', static_cast<char>(i + 1)};
  }
  expect_refused([&] { load_torch(pickle("tree.pt", tree + ".")); }, "tree.pt: offset ");
}

// One integer beyond 64 bits does not make a file unreadable.
TEST_F(HostileFiles, IntegersOfPicklesMayBeLarge) {
  const auto number = [](const std::string& bytes) {
    return "\x8a" + std::string(1, static_cast<char>(bytes.size())) + bytes;
  };
  const auto key = [](const std::string& text) {
    return std::string("X") + static_cast<char>(text.size()) + std::string(3, '\0') + text;
  };
  const std::string zeros(7, '\0');
  const SafetensorsFile read = load_torch(pickle(
      "large.pt", "\x80\x02}(" + key("2^63") + number(zeros + "\x80" + std::string(1, '\0')) +  //
                      key("-2^63") + number(zeros + "\x80") +                                   //
                      key("-2^63-1") + number(std::string(7, '\xff') + "\x7f\xff") +            //
                      key("2^72") + number(std::string(9, '\0') + "\x01") +                     //
                      key("-1") + number("\xff") + key("0") + number("") + key("255") +
                      number(std::string("\xff\0", 2)) + "u."));
  EXPECT_EQ(read.metadata, (Metadata{{"2^63", "9223372036854775808"},
                                     {"-2^63", "-9223372036854775808"},
                                     {"-2^63-1", "-9223372036854775809"},
                                     {"2^72", "4722366482869645213696"},
                                     {"-1", "-1"},
                                     {"0", "0"},
                                     {"255", "255"}}));
}

TEST_F(HostileFiles, CompressedZerosAreBoundedByTheFile) {
  const std::string zeros(std::size_t{100} << 20, '\0');
  std::string head("\x93NUMPY\x01\0", 8);
  const std::string text = "{'descr': '|u1', 'fortran_order': False, 'shape': (104857600,), }\n";
  head += static_cast<char>(text.size());
  const fs::path file = zip("zeros.npz", "a.npy", head + std::string(1, '\0') + text + zeros);
  EXPECT_LT(fs::file_size(file), 300'000u);
  expect_refused([&] { load_npz(file); }, "zeros.npz: offset ");
  const etude::internal::FileBytes bytes(file);
  expect_refused([&] { parse_npz(bytes.bytes(), "memory"); }, "memory: offset ");
  // The user may raise the limit.
  const ReadLimits before = set_read_limits({.bytes_per_byte = 10'000});
  EXPECT_EQ(load_npz(file).at("a").size(), 104857600);
  set_read_limits(before);
  expect_refused([&] { load_torch(zip("zeros.pt", "archive/data.pkl", zeros)); },
                 "zeros.pt: offset ");
  write_png(path("zeros.png"), etude::zeros({9000, 9000}, {.dtype = kUInt8}));
  expect_refused([&] { read_png(path("zeros.png")); }, "zeros.png: offset ");
}

TEST_F(HostileFiles, ManyItemsAreCounted) {
  std::string header = "{", names = "a";
  for (int i = 0; i < 20'000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"I8","shape":[0],"data_offsets":[0,0]})";
    names += ",a" + std::to_string(i);
  }
  header += "}";
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  const ReadLimits before = set_read_limits({.free_bytes = 0, .bytes_per_byte = 2});
  expect_refused([&] { load_safetensors(put("many.st", length + header)); }, "many.st: offset ");
  expect_refused([&] { parse_csv(names + "\n", "many.csv"); }, "many.csv: offset ");
  set_read_limits(before);
}

// A mapped file would end the process, and a pipe would make it wait.
TEST_F(HostileFiles, FilesThatChangeAndOtherThingsThanFiles) {
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += "line " + std::to_string(i) + "\n";
  const fs::path file = put("log.txt", lines);
  auto walk = text_lines(file).iterate();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(*walk.next(), "line " + std::to_string(i));
  fs::resize_file(file, 100);  // as a rotated log
  expect_error(
      [&] {
        while (walk.next()) {
        }
      },
      ErrorCode::kDataLoss, {file.string() + ": offset ", "it was cut off while it was read"});
  const fs::path pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  const std::vector<std::function<void()>> readers = {[&] { load_npy(pipe); },
                                                      [&] { load_npz(pipe); },
                                                      [&] { load_torch(pipe); },
                                                      [&] { load_safetensors(pipe); },
                                                      [&] { read_csv(pipe); },
                                                      [&] { read_png(pipe); },
                                                      [&] { text_lines(pipe).iterate().next(); }};
  for (const auto& read : readers) {
    expect_error(read, ErrorCode::kInvalidArgument, {pipe.string() + " is not a regular file"});
  }
  expect_error([&] { save_npy(pipe, Tensor(1.0)); }, ErrorCode::kFailedPrecondition,
               {"cannot save to '" + pipe.string() + "': it is a pipe"});
}

}  // namespace
}  // namespace etude::io::hostile_files_test

// SPDX-License-Identifier: Apache-2.0
// The column AOT of the op matrix: the graph of each call compiled ahead of time, linked by the C
// compiler into a shared library, and run: it has the bits of the call. Names no op. The refused
// calls are lines of the checked list ahead.txt, with their reasons.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "etude/aot/compile_model.h"
#include "etude/aot/model.h"
#include "etude/core/tensor.h"
#include "tests/ops/checks.h"
#include "tests/temp_folder.h"

namespace etude::matrix {
namespace {

namespace fs = std::filesystem;

constexpr char kList[] = "tests/ops/ahead.txt";
constexpr char kHead[] =
    "# Calls of the op matrix that are not compiled ahead of time: OP: WHY. What is refused and "
    "is\n"
    "# not here fails, and so does a line that has become untrue. A new line needs its reason in\n"
    "# the commit. Written by: ETUDE_UPDATE=1 build/dev/bin/ahead_test\n";
constexpr std::size_t kGroups = 8;  // each is one object file

using Run = int (*)(const void* const* inputs, void* const* outputs, void* scratch);
using Why = const char* (*)();

struct Compiled {
  Call call;
  aot::ModelFacts facts;
};

// Whether the call runs and has a graph: the sizes of its results do not depend on data.
bool is_tried(const Call& call) {
  if (has_data_sizes(call)) return false;
  try {
    run(call);
    return true;
  } catch (const Error&) {
    return false;  // see refusals.txt
  }
}

// The message without the op, the line, and parts that depend on dtype or build.
std::string reason(const Op& op, const Error& error) {
  std::string text = error.what();
  text.resize(std::min(text.size(), text.find("\n  at ")));
  const std::string prefix = fmt::format("{}: ", op.name());
  if (text.starts_with(prefix)) text = text.substr(prefix.size());
  if (text.find("' of lib") != std::string::npos) {
    const std::size_t name = text.find("it calls '"), end = text.find(", which", name);
    text.replace(name, end - name, "it calls another library");
  }
  // Arguments of templates, which show dtypes and instruction sets.
  for (std::size_t open = text.find('<'); open != std::string::npos; open = text.find('<')) {
    const std::size_t end = text.find("' ", open);
    text.erase(open, end == std::string::npos ? end : end - open);
  }
  for (const std::string_view isa : {"avx512::", "avx2::", "portable::"}) {
    if (const std::size_t at = text.find(isa); at != std::string::npos) text.erase(at, isa.size());
  }
  return text;
}

// All calls of some ops in one object file.
class Batch {
 public:
  explicit Batch(const aot::KernelArchives& archives) : compiler_(archives) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    if (library_ != nullptr) ::dlclose(library_);
  }

  void add(const Op& op) {
    for (const DType dtype : dtypes_of(op)) {
      for (const Call& call : calls_of(op, dtype)) {
        if (is_tried(call)) add(call);
      }
    }
  }

  const std::set<std::string>& reasons(const Op& op) { return reasons_[&op]; }

  void link(const fs::path& folder) {
    const fs::path object = folder / "all.o", library = folder / "all.so";
    std::ofstream(object, std::ios::binary) << compiler_.finish();
    const std::string command = fmt::format("cc -shared -Wl,-z,defs -o {} {} -lm -lpthread",
                                            library.string(), object.string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
  }

  void check() {
    for (const Compiled& each : compiled_) check(each);
  }
  std::size_t size() const { return compiled_.size(); }

 private:
  void add(const Call& call) {
    const std::string name = fmt::format("model{}", compiled_.size());
    try {
      compiled_.push_back({call, compiler_.add(name, *graph_of(call))});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnimplemented) << call.label("ahead") << error.what();
      reasons_[call.op].insert(reason(*call.op, error));
    }
  }

  void check(const Compiled& each) {
    const std::string label = each.call.label("ahead");
    const auto run = reinterpret_cast<Run>(::dlsym(library_, (each.facts.name + "_run").c_str()));
    const auto why = reinterpret_cast<Why>(::dlsym(library_, (each.facts.name + "_error").c_str()));
    ASSERT_NE(run, nullptr) << label;
    std::vector<const void*> in;
    const std::vector<Tensor> inputs = inputs_of(each.call);
    for (const Tensor& x : inputs) in.push_back(TensorAccess::data(x));
    std::vector<Tensor> got;
    std::vector<void*> out;
    for (const aot::ModelFacts::Array& y : each.facts.outputs) {
      got.push_back(internal::make_tensor(y.type));
      out.push_back(TensorAccess::rep(got.back())->data);
    }
    std::vector<std::byte> scratch(each.facts.scratch_bytes + 1);
    // From an odd address on: no caller has to align it.
    const int status = run(in.data(), out.data(), scratch.data() + 1);
    ASSERT_EQ(status, 0) << label << ": " << why();
    std::vector<Tensor> want;
    for (const Tensor& y : dense_results(each.call)) {
      if (y.has_value()) want.push_back(y);
    }
    compare_lists(each.call, "ahead", got, want);
  }

  aot::ModelCompiler compiler_;
  std::vector<Compiled> compiled_;
  std::map<const Op*, std::set<std::string>> reasons_;
  void* library_ = nullptr;
};

const aot::KernelArchives& archives() {
  static const auto* const out = new aot::KernelArchives;
  return *out;
}

std::vector<std::string> listed(const Op& op) {
  std::vector<std::string> out;
  std::ifstream file(kList);
  EXPECT_TRUE(file.good()) << kList << " cannot be read; run the test in the root";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(fmt::format("{}: ", op.name()))) out.push_back(line);
  }
  return out;
}

class Ahead : public testing::TestWithParam<std::size_t> {};

TEST_P(Ahead, Calls) {
  std::vector<const Op*> ops;
  const auto all = Registry::global().ops();
  for (std::size_t i = GetParam(); i < all.size(); i += kGroups) ops.push_back(all[i]);
  Batch batch(archives());
  for (const Op* op : ops) batch.add(*op);
  std::string update;
  for (const Op* op : ops) {
    std::vector<std::string> found;
    for (const std::string& why : batch.reasons(*op)) {
      found.push_back(fmt::format("{}: {}", op->name(), why));
      update += found.back() + "\n";
    }
    if (std::getenv("ETUDE_UPDATE") == nullptr) {
      EXPECT_EQ(listed(*op), found) << kList;
    }
  }
  if (std::getenv("ETUDE_UPDATE") != nullptr) {
    std::ofstream file(kList, GetParam() == 0 ? std::ios::trunc : std::ios::app);
    if (GetParam() == 0) file << kHead;
    file << update;
  }
  const internal::TempFolder folder;
  batch.link(folder.path());
  if (HasFatalFailure()) return;
  // On a separate thread: the models' state of a thread ends with it, and the library can be
  // unloaded.
  std::thread([&] { batch.check(); }).join();
  EXPECT_GT(batch.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(Groups, Ahead, testing::Range(std::size_t{0}, kGroups));

}  // namespace
}  // namespace etude::matrix

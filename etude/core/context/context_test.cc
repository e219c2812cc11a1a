// SPDX-License-Identifier: Apache-2.0
// Execution of calls: the stack of contexts, scopes, the mode word, and thread-local state.
#include "etude/core/context/context.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/context/ambient.h"
#include "etude/core/internal/followed_values.h"
#include "etude/core/internal/mode.h"
#include "etude/core/internal/value_observer.h"
#include "etude/core/op/registry.h"
#include "etude/core/op/slices.h"

namespace etude {
namespace {

// Writes its name and the line of each call, and passes the call on.
class Writer : public Context {
 public:
  Writer(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
  ~Writer() override { ContextStack::remove(*this); }

  Values execute(const Op& op, Operands operands, const Attrs& attrs, CallSite where) override {
    log_.push_back(name_ + " " + std::string(op.name()));
    lines_.push_back(where.line);
    const ContextScope scope(*parent(), where);
    return etude::execute(op, operands, attrs, CallSite::here());
  }
  const std::vector<decltype(CallSite::line)>& lines() const { return lines_; }

 private:
  std::string name_;
  std::vector<std::string>& log_;
  std::vector<decltype(CallSite::line)> lines_;
};

Tensor add_one(const Tensor& x, CallSite where = CallSite::here()) {
  const Op& op = Registry::global().at("add");
  const Tensor one = 1.0F;
  const OperandList in({&x, &one});
  return execute(op, in.view(), op.default_attrs(), where)[0];
}

using Log = std::vector<std::string>;

class ContextTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(ContextStack::is_eager());
    EXPECT_EQ(internal::mode_word, 0U);
  }
  Log log_;
};

TEST_F(ContextTest, TheBottomIsEager) {
  EXPECT_EQ(&ContextStack::top(), &eager_context());
  EXPECT_TRUE(ContextStack::is_eager());
  EXPECT_EQ(add_one(2.0F).item<float>(), 3.0F);
}

TEST_F(ContextTest, TheInnermostSeesACallFirst) {
  Writer outer("outer", log_), inner("inner", log_);
  ContextStack::push(outer);
  EXPECT_EQ(internal::mode_word, internal::kModeContexts);
  ContextStack::push(inner);
  EXPECT_EQ(inner.parent(), &outer);
  EXPECT_EQ(outer.parent(), &eager_context());
  EXPECT_EQ(add_one(2.0F).item<float>(), 3.0F);
  EXPECT_EQ(log_, (Log{"inner add", "outer add"}));
}

TEST_F(ContextTest, OneMayLeaveFromAnywhere) {
  for (int leaves = 0; leaves < 3; ++leaves) {
    log_.clear();
    Writer a("a", log_), b("b", log_), c("c", log_);
    Writer* const all[] = {&a, &b, &c};
    for (Writer* each : all) ContextStack::push(*each);
    ContextStack::remove(*all[leaves]);
    EXPECT_EQ(all[leaves]->parent(), nullptr);
    ContextStack::remove(*all[leaves]);  // nothing happens
    add_one(2.0F);
    Log want = {"c add", "b add", "a add"};
    want.erase(want.begin() + 2 - leaves);
    EXPECT_EQ(log_, want);
    for (Writer* each : all) ContextStack::remove(*each);
    EXPECT_TRUE(ContextStack::is_eager());
    EXPECT_EQ(internal::mode_word, 0U);
  }
}

TEST_F(ContextTest, AScopePutsItsContextInFrontAndTakesItBack) {
  Writer outer("outer", log_), inner("inner", log_);
  ContextStack::push(outer);
  ContextStack::push(inner);
  {
    const ContextScope scope(outer, CallSite::here());
    EXPECT_TRUE(internal::is_inside_rule());
    add_one(2.0F);
    {
      const ContextScope bottom(eager_context(), CallSite::here());
      EXPECT_TRUE(ContextStack::is_eager());
      EXPECT_EQ(internal::mode_word, 0U);
      add_one(2.0F);
    }
    EXPECT_EQ(&ContextStack::top(), &outer);
  }
  EXPECT_FALSE(internal::is_inside_rule());
  EXPECT_EQ(log_, Log{"outer add"});
  EXPECT_EQ(&ContextStack::top(), &inner);
}

TEST_F(ContextTest, AnExceptionEndsAScope) {
  Writer outer("outer", log_);
  ContextStack::push(outer);
  EXPECT_THROW(
      {
        const ContextScope scope(eager_context(), CallSite::here());
        throw std::runtime_error("left");
      },
      std::runtime_error);
  EXPECT_EQ(&ContextStack::top(), &outer);
  EXPECT_FALSE(internal::is_inside_rule());
  EXPECT_EQ(internal::mode_word, internal::kModeContexts);
}

// Calls inside a rule have the line of the user's call, at any depth of rules.
TEST_F(ContextTest, CallsOfARuleHaveTheLineOfTheUser) {
  Writer outer("outer", log_), inner("inner", log_);
  ContextStack::push(outer);
  ContextStack::push(inner);
  EXPECT_FALSE(internal::rule_call_site().known());
  const CallSite where = CallSite::here();
  add_one(2.0F, where);
  EXPECT_EQ(inner.lines(), std::vector{where.line});
  EXPECT_EQ(outer.lines(), std::vector{where.line});
  const ContextScope outside(outer, where);
  const ContextScope rule(outer, CallSite::here());
  EXPECT_EQ(internal::rule_call_site().line, where.line);
}

TEST_F(ContextTest, AThreadStartsWithNone) {
  Writer outer("outer", log_);
  ContextStack::push(outer);
  std::thread([] {
    EXPECT_TRUE(ContextStack::is_eager());
    EXPECT_EQ(internal::mode_word, 0U);
    EXPECT_EQ(add_one(2.0F).item<float>(), 3.0F);
  }).join();
  EXPECT_EQ(log_, Log{});
}

// ---- ambient settings

TEST(Ambient, ScopesPutBackWhatWas) {
  set_seed(5);
  const Generator start = ambient().generator;
  {
    const SeedScope other(9);
    EXPECT_EQ(ambient().generator, Generator(9));
    internal::next_key();
  }
  EXPECT_EQ(ambient().generator, start);
  EXPECT_FALSE(is_training());
  try {
    const PhaseScope training(Phase::kTraining);
    EXPECT_TRUE(is_training());
    throw std::runtime_error("left");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(is_training());
}

TEST(Ambient, KeysAreASequenceThatACopyRepeats) {
  Generator generator(3, 4);
  Generator copy = generator;
  std::vector<Tensor> keys;
  for (int i = 0; i < 50; ++i) keys.push_back(generator.next_key());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(same_value(copy.next_key(), keys[i]));
    for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(same_value(keys[i], keys[k]));
  }
  EXPECT_EQ(copy, generator);
  EXPECT_FALSE(same_value(Generator(3, 5).next_key(), keys[0]));
  EXPECT_FALSE(same_value(Generator(4, 4).next_key(), keys[0]));
}

TEST(Ambient, ThreadsDrawFromStreamsOfTheirOwn) {
  Generator first, second;
  std::thread([&] { first = ambient().generator; }).join();
  std::thread([&] { second = ambient().generator; }).join();
  EXPECT_NE(first.stream, second.stream);
}

// ---- observers of values

class Deaths final : public internal::ValueObserver {
 public:
  void value_died(uint64_t id) noexcept override { ids.push_back(id); }
  std::vector<uint64_t> ids;
};

TEST(ValueObserver, HearsOfTheEndOfAValueOnce) {
  Deaths deaths;
  uint64_t id = 0;
  {
    const Tensor x({1.0F, 2.0F});
    id = TensorAccess::id(x);
    const Tensor copy = x;
    EXPECT_EQ(TensorAccess::id(copy), id);
  }
  EXPECT_EQ(deaths.ids, std::vector<uint64_t>{id});
}

TEST(ValueObserver, AWriteEndsAValueThatNobodyShares) {
  Deaths deaths;
  Tensor x({1.0F, 2.0F});
  const uint64_t id = TensorAccess::id(x);
  const Tensor kept = x;
  TensorAccess::writable(x);  // goes to new memory: `kept` is the value still
  EXPECT_EQ(deaths.ids, std::vector<uint64_t>{});
  EXPECT_EQ(TensorAccess::id(kept), id);
  const uint64_t second = TensorAccess::id(x);
  EXPECT_NE(second, id);
  TensorAccess::writable(x);  // in place
  EXPECT_EQ(deaths.ids, std::vector<uint64_t>{second});
}

TEST(ValueObserver, ValuesWithoutAnIdAreNotTold) {
  Deaths deaths;
  { const Tensor x({1.0F, 2.0F}); }
  EXPECT_EQ(deaths.ids, std::vector<uint64_t>{});
}

TEST(ValueObserver, MayLeaveInAnyOrder) {
  auto first = std::make_unique<Deaths>(), second = std::make_unique<Deaths>();
  Deaths third;
  second.reset();
  { TensorAccess::id(Tensor(1.0F)); }
  EXPECT_EQ(first->ids.size(), 1U);
  first.reset();
  { TensorAccess::id(Tensor(1.0F)); }
  EXPECT_EQ(third.ids.size(), 2U);
  std::thread([] { TensorAccess::id(Tensor(1.0F)); }).join();  // of another thread
  EXPECT_EQ(third.ids.size(), 2U);
}

// Each tensor is held by the entry of its predecessor, so that each death is reported while another
// entry is removed.
internal::FollowedValues::Map chain_of(std::size_t length, Tensor first) {
  internal::FollowedValues::Map chain;
  for (std::size_t i = 0; i < length; ++i) {
    const uint64_t id = TensorAccess::id(first);
    first = Tensor(1.0F);
    chain[id] = first;
  }
  return chain;
}

TEST(FollowedValues, MayBeFollowedThemselves) {
  constexpr std::size_t kLength = 100;
  Tensor first(1.0F);
  const uint64_t id = TensorAccess::id(first);
  std::optional<internal::FollowedValues> values(std::in_place, chain_of(kLength, first));
  EXPECT_EQ(values->all().size(), kLength);
  EXPECT_NE(values->find(id), nullptr);
  const Deaths deaths;
  values.reset();                             // while the tensors that they belong to live
  EXPECT_EQ(deaths.ids.size(), kLength - 1);  // the last one has no id
  values.emplace(chain_of(kLength, first));
  first = {};
  EXPECT_EQ(values->find(id), nullptr);
  EXPECT_TRUE(values->all().empty());  // one death after the other
}

}  // namespace
}  // namespace etude

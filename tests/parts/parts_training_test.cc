// SPDX-License-Identifier: Apache-2.0
// Whole trainings on Parts alone have the bits of those on structs: losses, parameters, layer state
// and the state of optimisers, in all modes; and so have their checkpoints, byte for byte.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>

#include "etude/etude.h"
#include "tests/expect_error.h"
#include "tests/parts/parts_models.h"
#include "tests/temp_folder.h"

namespace etude::parts_test {
namespace {

using etude::internal::TempFolder;
using etude::tests::expect_error;

template <class Model, class Optimizer>
void expect_same_training(const Model& start, const Optimizer& fresh, How how,
                          const std::string& what) {
  const std::string at = what + " " + name_of(how);
  Model model = start;
  Optimizer of_struct = fresh, of_parts = fresh;
  Parts parts = parts_of(start);
  const auto a = train(how, model, of_struct, loss_of_struct<Model>());
  const auto b = train(how, parts, of_parts, loss_of_parts(start));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_value(a[i], b[i])) << at << " " << i;
  EXPECT_FALSE(same_value(a.front(), a.back())) << at;
  expect_same_tensors(model, parts, at);
  expect_same_state(of_struct.state(), of_parts.state(), at);
  Model back = start;
  assign_parts(back, parts);
  expect_same_tensors(model, back, at);
}

template <class Model>
void expect_same_with_usual(const Model& start, const std::string& what) {
  for (const How how : {How::kEager, How::kStaged, How::kLazy}) {
    expect_same_training(start, optim::SGD({.lr = 0.1}), how, what + " SGD");
    expect_same_training(start, optim::SGD({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}), how,
                         what + " momentum");
    expect_same_training(start, optim::Adam({.lr = optim::cosine(0.05, 9)}), how, what + " Adam");
    optim::AdamW decayed({.lr = 0.05, .weight_decay = 0.1});
    decayed.group("*bias", {.weight_decay = 0});
    expect_same_training(start, decayed, how, what + " AdamW");
  }
}

template <class Model>
Model made() {
  set_seed(4);
  return Model();
}

TEST(PartsTraining, OfAnMlpWithLayerStateHasTheBitsOfTheStruct) {
  expect_same_with_usual(made<Mlp>(), "Mlp");
}
TEST(PartsTraining, OfARecurrentModelHasTheBitsOfTheStruct) {
  expect_same_with_usual(made<Recurrent>(), "Recurrent");
}
TEST(PartsTraining, OfAConvolutionHasTheBitsOfTheStruct) {
  expect_same_with_usual(made<Image>(), "Image");
}

TEST(PartsTraining, LeavesFrozenPartsAsTheyAre) {
  Image start = made<Image>();
  start.conv1.frozen = true;
  expect_same_with_usual(start, "frozen");
  // Any path of Parts can be frozen.
  const Mlp mlp = made<Mlp>();
  Parts parts = parts_of(mlp);
  EXPECT_EQ(freeze(parts, "hidden/"), 2u);
  optim::AdamW optimizer({.lr = 0.1, .weight_decay = 0.1});
  train(How::kStaged, parts, optimizer, loss_of_parts(mlp));
  EXPECT_TRUE(same_value(parts.tensor("hidden/weight"), mlp.hidden.weight));
  EXPECT_TRUE(same_value(parts.tensor("hidden/bias"), mlp.hidden.bias));
  EXPECT_FALSE(same_value(parts.tensor("output/weight"), mlp.output.weight));
  EXPECT_EQ(unfreeze(parts, "hidden/"), 2u);
  train(How::kEager, parts, optimizer, loss_of_parts(mlp), 1);
  EXPECT_FALSE(same_value(parts.tensor("hidden/weight"), mlp.hidden.weight));
}

TEST(PartsTraining, HasTheBitsOfStructsWithEveryOptimiser) {
  const Mlp start = made<Mlp>();
  const auto check = [&](const auto& optimizer, const char* what) {
    expect_same_training(start, optimizer, How::kEager, what);
  };
  check(optim::RMSProp({.lr = 0.01}), "RMSProp");
  check(optim::AdaGrad({.lr = 0.1}), "AdaGrad");
  check(optim::AdaDelta({.lr = 0.5}), "AdaDelta");
  check(optim::AdaMax({.lr = 0.1}), "AdaMax");
  check(optim::RAdam({.lr = 0.1}), "RAdam");
  check(optim::NAdam({.lr = 0.1}), "NAdam");
  check(optim::Lion({.lr = 0.01, .weight_decay = 0.1}), "Lion");
}

TEST(PartsTraining, MovesAlongGradientsAsStructsDo) {
  const PhaseScope training(Phase::kTraining);
  Mlp model = made<Mlp>();
  model.output = nn::Dense(8, 2);  // -0.1 * slopes of a struct takes no absent tensor
  const Mlp like = model;
  Parts parts = parts_of(model);
  for (int i = 0; i < 4; ++i) {
    set_seed(30 + static_cast<uint64_t>(i));
    const Tensor x = rows(), y = labels();
    move(model,
         -0.1 * gradient([&](const Mlp& m) -> Tensor { return loss_of_struct<Mlp>()(m, x, y); },
                         model));
    set_seed(30 + static_cast<uint64_t>(i));
    move(parts,
         -0.1 * gradient([&](const Parts& p) -> Tensor { return loss_of_parts(like)(p, x, y); },
                         parts));
  }
  expect_same_tensors(model, parts, "move");
  EXPECT_FALSE(same_value(parts.state("norm/running/mean").value, like.norm.running.value.mean));
}

// Tangents convert as well: a gradient by Parts moves the struct.
TEST(PartsTraining, GradientsConvertToTangentsOfStructs) {
  const PhaseScope training(Phase::kTraining);
  const Mlp start = made<Mlp>();
  const Parts parts = parts_of(start);
  const Tensor x = rows(), y = labels();
  set_seed(8);
  const auto slope =
      gradient([&](const Mlp& m) -> Tensor { return loss_of_struct<Mlp>()(m, x, y); }, start);
  set_seed(8);
  const Parts slopes =
      gradient([&](const Parts& p) -> Tensor { return loss_of_parts(start)(p, x, y); }, parts);
  EXPECT_EQ(parts_of(slope).form(), slopes.form()) << parts_of(slope).form()->to_string();
  expect_same_tensors(slope, slopes, "slopes");
  tangent_t<Mlp> converted = zero_tangent(start);
  assign_parts(converted, slopes);
  Mlp a = start, b = start;
  move(a, slope);
  move(b, converted);
  expect_same_tensors(a, b, "moved");
  EXPECT_FALSE(same_value(b.norm.running.value.mean, start.norm.running.value.mean));
}

std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Two folders hold the same files, by name and byte for byte.
void expect_same_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto names_in = [](const std::filesystem::path& folder) {
    std::set<std::string> out;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      out.insert(file.path().filename().string());
    }
    return out;
  };
  const std::set<std::string> names = names_in(a);
  EXPECT_FALSE(names.empty()) << a;
  EXPECT_EQ(names, names_in(b));
  for (const std::string& name : names) {
    EXPECT_EQ(bytes_of_file(a / name), bytes_of_file(b / name)) << name;
  }
}

TEST(PartsTraining, WritesTheCheckpointsOfStructsByteForByte) {
  const TempFolder folder;
  const Mlp start = made<Mlp>();
  Mlp model = start;
  Parts parts = parts_of(start);
  optim::AdamW of_struct({.lr = 0.05}), of_parts = of_struct;
  train(How::kEager, model, of_struct, loss_of_struct<Mlp>());
  train(How::kEager, parts, of_parts, loss_of_parts(start));
  data::Loader<data::Samples> data({rows(), labels()}, {.batch = 4});
  const std::string a = (folder.path() / "a").string(), b = (folder.path() / "b").string();
  io::save_checkpoint(a, model, of_struct, data);
  io::save_checkpoint(b, parts, of_parts, data);
  expect_same_files(a, b);

  Mlp loaded = start;
  Parts loaded_parts = parts_of(start);
  optim::AdamW optimizer({.lr = 0.05});
  io::load_checkpoint(b, loaded, optimizer, data);
  io::load_checkpoint(a, loaded_parts, optimizer, data);
  expect_same_tensors(model, loaded, "struct of parts");
  expect_same_tensors(model, loaded_parts, "parts of a struct");

  io::Checkpoint of_model{{"net", model}}, of_named{{"net", parts}};
  of_model.write((folder.path() / "c").string());
  of_named.write((folder.path() / "d").string());
  expect_same_files(folder.path() / "c", folder.path() / "d");
  Parts restored = parts_of(start);
  io::Checkpoint target{{"net", restored}};
  target.restore((folder.path() / "c").string()).assert_consumed();
  expect_same_tensors(model, restored, "restored");
}

TEST(PartsTraining, ErrorsNameThePath) {
  const Mlp start = made<Mlp>();
  Parts parts = parts_of(start);
  const Parts slopes = zero_tangent(parts);
  EXPECT_EQ(slopes.form(), parts.form()->tangent());
  {
    Parts wrong = slopes;
    wrong.tensor("output/weight") = ones({3, 3});
    optim::SGD optimizer;
    expect_error([&] { optimizer.update(parts, wrong); }, ErrorCode::kInvalidArgument,
                 {"output/weight", "float32[3,3]"});
    expect_error([&] { move(parts, wrong); }, ErrorCode::kInvalidArgument,
                 {"part 'output/weight': ", "[8,2]", "[3,3]"});
  }
  Parts other = parts;
  other.put("hidden", Parts::fields({{"weight", ones({3, 8})}}));
  expect_error([&] { static_cast<void>(struct_of(start, other)); }, ErrorCode::kInvalidArgument,
               {"assign_parts: part 'hidden': the struct has the fields (weight, bias), but the "
                "parts have (weight)"});
  other = parts;
  other.put("gain", Parts(Described("much")));
  expect_error([&] { static_cast<void>(struct_of(start, other)); }, ErrorCode::kInvalidArgument,
               {"part 'gain': the host value is 'much' of type 'text', but 'double' is needed"});
  other = parts;
  other.put("output/weight", Parts(Variable(ones({8, 2}))));
  expect_error([&] { static_cast<void>(struct_of(start, other)); }, ErrorCode::kInvalidArgument,
               {"part 'output/weight': the struct has a tensor here, but the part is a Variable"});
  expect_error([&] { move(parts, zero_tangent(Parts(ones({2})))); }, ErrorCode::kInvalidArgument,
               {"the value has a tangent of the form {hidden: {weight: tensor", "this is tensor"});
}

}  // namespace
}  // namespace etude::parts_test

// SPDX-License-Identifier: Apache-2.0
// Requests as JSON and binary data: accepted bodies, and the text of each refusal.
#include "serve/request.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/datatype.h"

namespace etude::serve {
namespace {

std::string input_json(const std::string& datatype, const std::string& rest) {
  return R"({"inputs":[{"name":"x","datatype":")" + datatype + "\"," + rest + "}]}";
}

// The text of the error of a body.
std::string refusal(const std::string& body, std::optional<std::size_t> header = std::nullopt,
                    const RequestLimits& limits = {}) {
  try {
    read_infer(body, header, {}, limits);
  } catch (const Error& error) {
    return error.text();
  }
  return "not refused";
}
void expect_refusal(const std::string& body, const std::string& fragment,
                    std::optional<std::size_t> header = std::nullopt) {
  const std::string text = refusal(body, header);
  EXPECT_NE(text.find(fragment), std::string::npos) << body.substr(0, 200) << "\n" << text;
}

TEST(ReadInfer, NumbersOfEachDatatype) {
  for (const char* datatype : {"UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32",
                               "INT64", "FP16", "FP32", "FP64", "BF16"}) {
    const InferRequest got = read_infer(
        input_json(datatype, R"("shape":[2,2],"data":[[1,2],[3,100]])"), std::nullopt, {});
    const Tensor& x = got.inputs.at("x");
    EXPECT_EQ(datatype_name(x.dtype()), datatype);
    EXPECT_EQ(x.shape(), (Shape{2, 2}));
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2, 3, 100})) << datatype;
  }
  const InferRequest flags =
      read_infer(input_json("BOOL", R"("shape":[4],"data":[true,false,1,0])"), std::nullopt, {});
  EXPECT_EQ(flags.inputs.at("x").to_vector<int>(), (std::vector<int>{1, 0, 1, 0}));
}

TEST(ReadInfer, IntegersKeepAllBits) {
  const InferRequest got = read_infer(
      input_json("INT64", R"("shape":[2],"data":[9223372036854775807,-9223372036854775808])"),
      std::nullopt, {});
  EXPECT_EQ(got.inputs.at("x").to_vector<int64_t>(), (std::vector<int64_t>{INT64_MAX, INT64_MIN}));
}

TEST(ReadInfer, ShortFloatsAreRoundedOnce) {
  // A little above the middle of one and the next number. As a float it is the middle, which
  // rounds to one.
  for (const auto& [datatype, text, nearest] : {std::tuple("FP16", "1.0004882813", 0x1.004p0),
                                                std::tuple("BF16", "1.0039062501", 0x1.02p0)}) {
    const InferRequest got =
        read_infer(input_json(datatype, R"("shape":[1],"data":[)" + std::string(text) + "]"),
                   std::nullopt, {});
    EXPECT_EQ(got.inputs.at("x").to_vector<double>()[0], nearest) << datatype;
  }
}

TEST(ReadInfer, EmptyAndScalar) {
  EXPECT_EQ(read_infer(input_json("FP32", R"("shape":[0,3],"data":[])"), std::nullopt, {})
                .inputs.at("x")
                .shape(),
            (Shape{0, 3}));
  EXPECT_EQ(read_infer(input_json("FP32", R"("shape":[],"data":[2.5])"), std::nullopt, {})
                .inputs.at("x")
                .item<float>(),
            2.5F);
}

TEST(ReadInfer, BinaryInputsAfterTheJson) {
  const std::string json =
      R"({"id":"7","inputs":[{"name":"a","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},)"
      R"({"name":"c","datatype":"INT8","shape":[1],"data":[5]},)"
      R"({"name":"b","datatype":"UINT8","shape":[3],"parameters":{"binary_data_size":3}}],)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":true}},{"name":"z"}],)"
      R"("parameters":{"timeout":250000}})";
  const float values[] = {1.5F, -2};
  std::string body = json;
  body.append(reinterpret_cast<const char*>(values), 8).append("\x01\x02\xff", 3);
  const InferRequest got = read_infer(body, json.size(), {});
  EXPECT_EQ(got.id, "7");
  EXPECT_EQ(got.timeout_us, 250000);
  EXPECT_EQ(got.inputs.at("a").to_vector<float>(), (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(got.inputs.at("b").to_vector<int>(), (std::vector<int>{1, 2, 255}));
  EXPECT_EQ(got.inputs.at("c").item<int>(), 5);
  ASSERT_EQ(got.outputs.size(), 2U);
  EXPECT_TRUE(got.outputs[0].binary);
  EXPECT_FALSE(got.outputs[1].binary);
}

TEST(ReadInfer, RefusesWhatIsNoRequest) {
  expect_refusal("", "the request is no JSON: it ends at byte 0, before a value");
  expect_refusal("{\"inputs\":[]} x", "no JSON: byte 14 is 'x', in the place of the end");
  expect_refusal("[1]", "the request is a list, but must be an object");
  expect_refusal("{}", "the request has no list 'inputs'");
  expect_refusal(R"({"inputs":[3]})", "the list 'inputs' has 3, but must have objects");
  expect_refusal(R"({"inputs":[{}]})", "an input has no 'name'");
  expect_refusal(R"({"inputs":[{"name":"x"}]})", "input 'x' has no 'datatype'");
  expect_refusal(R"({"id":5,"inputs":[]})", "'id' of the request is 5, but must be a text");
  expect_refusal(std::string(100, '['), "nested deeper than 32, at byte 32");
  expect_refusal(R"({"inputs":1})", "the request has no list 'inputs'");
  expect_refusal(R"({"inputs":[],"inputs":[]})", "the request has 'inputs' twice");
  expect_refusal(R"({"id":null,"id":"a","inputs":[]})", "the request has 'id' twice");
  expect_refusal(R"({"inputs":[],"parameters":[]})",
                 "'parameters' of the request is a list, but must be an object");
  expect_refusal(R"({"inputs":[],"parameters":{"timeout":-1}})",
                 "parameter 'timeout' of the request is -1, but must be a number from 0");
  expect_refusal(R"({"inputs":[],"parameters":{"binary_data_output":1}})",
                 "'binary_data_output' of the request is 1, but must be true or false");
  expect_refusal(R"({"inputs":[],"outputs":[{}]})", "an output has no 'name', which is a text");
  expect_refusal(
      R"({"inputs":[],"outputs":[{"name":"y","parameters":{"classification":3}}]})",
      "output 'y' has the parameter 'classification', an extension that this server does not have");
  expect_refusal(
      R"({"inputs":[],"outputs":[{"name":"y","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]})",
      "output 'y' has the parameter 'shared_memory_region', but this server does not support "
      "shared memory");
  expect_refusal(
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"r"}}]})",
      "input 'x' has the parameter 'shared_memory_region', but this server does not support");
  expect_refusal(R"({"inputs":[],"id":")" + std::string(2000, 'i') + "\"}",
                 "'id' of the request has 2000 bytes, but may have 1024");
}

TEST(ReadInfer, RefusesInputsThatDoNotFit) {
  expect_refusal(input_json("BYTES", R"("shape":[1],"data":["a"])"),
                 "input 'x' has the datatype 'BYTES', but there are: BOOL, UINT8");
  expect_refusal(input_json("FP32", R"("data":[1])"), "input 'x' has no 'shape'");
  expect_refusal(input_json("FP32", R"("shape":[-1],"data":[1])"),
                 "input 'x' has shape [-1], but the sizes of a request must not be negative");
  expect_refusal(input_json("FP32", R"("shape":[1.5],"data":[1])"),
                 "has the size 1.5, but a size is a whole number");
  expect_refusal(input_json("FP32", R"("shape":[18446744073709551615],"data":[1])"),
                 "a size is a whole number");
  expect_refusal(input_json("FP32", R"("shape":[4611686018427387904,4],"data":[1])"),
                 "which is too large");
  expect_refusal(input_json("FP32", R"("shape":[1000000000],"data":[1])"),
                 "the request is too short for its data");
  expect_refusal(input_json("FP32", R"("shape":[2],"data":[1])"),
                 "'data' of input 'x' has only 1 numbers, but its shape needs 2");
  expect_refusal(input_json("FP32", R"("shape":[1],"data":[1,2])"),
                 "has more than 1 numbers, but its shape needs 1");
  expect_refusal(input_json("INT8", R"("shape":[2],"data":[1,128])"),
                 "'data' of input 'x' has 128 at position 1, which is no INT8");
  expect_refusal(input_json("UINT8", R"("shape":[1],"data":[-1])"), "which is no UINT8");
  expect_refusal(input_json("INT32", R"("shape":[1],"data":[1.5])"), "which is no INT32");
  expect_refusal(input_json("FP16", R"("shape":[1],"data":[70000])"), "which is no FP16");
  expect_refusal(input_json("FP32", R"("shape":[1],"data":["1"])"), "which is no FP32");
  expect_refusal(input_json("FP32", R"("shape":[1])"), "input 'x' has no data");
  expect_refusal(
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]},{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]})",
      "input 'x' is given twice");
  const std::string deep =
      input_json("FP32", R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data":[1])");
  expect_refusal(deep, "input 'x' has more than 16 axes");
  expect_refusal(input_json("FP32", R"("shape":[1],"data":[1e39])"), "has 1e39 at position 0");
  expect_refusal(input_json("FP64", R"("shape":[1],"data":[1e999])"), "which is no FP64");
  expect_refusal(input_json("FP32", R"("shape":[1],"data":5)"),
                 "'data' of input 'x' is 5, but must be a list");
  expect_refusal(input_json("FP32", R"("shape":[1],"data":[1],"data":[1])"),
                 "an input has 'data' twice");
}

TEST(ReadInfer, RefusesBinaryDataThatDoesNotFit) {
  const auto json = [](int bytes) {
    return fmt::format(
        R"({{"inputs":[{{"name":"x","datatype":"FP32","shape":[2],"parameters":{{"binary_data_size":{}}}}}]}})",
        bytes);
  };
  const std::string eight = json(8), nine = json(9), bad = json(-1);
  expect_refusal(eight, "binary_data_size 8, but the body has only 0 bytes left");
  expect_refusal(eight + "1234", "has only 4 bytes left", eight.size());
  expect_refusal(nine + "123456789", "has 9 bytes of data, but FP32 of shape [2] needs 8",
                 nine.size());
  expect_refusal(eight + "123456789", "the body has 1 bytes after the data", eight.size());
  expect_refusal(bad, "parameter 'binary_data_size' of input 'x' is -1, but must be a number");
  expect_refusal(eight, "Inference-Header-Content-Length is 5000, but the body has only", 5000);
  const std::string flag =
      R"({"inputs":[{"name":"x","datatype":"BOOL","shape":[1],"parameters":{"binary_data_size":1}}]})";
  expect_refusal(flag + "\x02", "is BOOL, but has bytes other than 0 and 1", flag.size());
}

// The members of an object have no order.
TEST(ReadInfer, MembersInAnyOrder) {
  const InferRequest got = read_infer(
      R"({"outputs":[{"name":"y"},{"parameters":{"binary_data":false},"name":"z"}],"inputs":[)"
      R"({"data":[[1,2],[3,4]],"more":[{"a":[]}],"shape":[2,2],"datatype":"INT8","name":"x"}],)"
      R"("parameters":{"binary_data_output":true,"other":null},"id":null})",
      std::nullopt, {});
  EXPECT_EQ(got.inputs.at("x").to_vector<int>(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_TRUE(got.binary_outputs);
  ASSERT_EQ(got.outputs.size(), 2U);
  EXPECT_TRUE(got.outputs[0].binary);
  EXPECT_FALSE(got.outputs[1].binary);
}

// The nearest number of the datatype, also of digits that are near the middle of two numbers, and
// of numbers that are too small.
TEST(ReadInfer, RoundsToTheNearest) {
  const auto one = [](const char* datatype, const char* digits) {
    return read_infer(input_json(datatype, fmt::format(R"("shape":[1],"data":[{}])", digits)),
                      std::nullopt, {})
        .inputs.at("x");
  };
  // In float64, this is the middle of 1 and the next float32, which would become 1.
  EXPECT_EQ(one("FP32", "1.00000005960464477540").item<float>(), 1.0F + 0x1p-23F);
  EXPECT_EQ(one("FP32", "1e-999").item<float>(), 0.0F);
  EXPECT_EQ(one("FP64", "-1e-999").item<double>(), 0.0);
  EXPECT_EQ(one("FP64", "5e-324").item<double>(), 5e-324);
  EXPECT_EQ(one("FP64", ("0." + std::string(1000, '3')).c_str()).item<double>(), 1.0 / 3);
  EXPECT_EQ(one("UINT8", "-0").item<int>(), 0);
}

// A refused input costs nothing: its data is not read.
TEST(ReadInfer, ChecksInputsBeforeTheirData) {
  std::string seen;
  const CheckInput check = [&](const std::string& name, DType dtype,
                               const std::vector<int64_t>& shape) {
    seen = name + " " + std::string(datatype_name(dtype)) + " " + shape_text(shape);
    throw Error(ErrorCode::kInvalidArgument, "not this");
  };
  for (const char* text :
       {R"({"inputs":[{"name":"x","datatype":"FP16","shape":[0,5],"data":3}]})",
        R"({"inputs":[{"data":3,"name":"x","datatype":"FP16","shape":[0,5]}]})"}) {
    seen.clear();
    try {
      read_infer(text, std::nullopt, check);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "not this");
    }
    EXPECT_EQ(seen, "x FP16 [0,5]");
  }
}

TEST(ReadInfer, LimitsTheTensors) {
  const auto eleven = [](std::string out, const std::string& each) {
    for (int i = 0; i < 11; ++i) out += (i > 0 ? "," : "") + fmt::format(fmt::runtime(each), i);
    return out + "]}";
  };
  const RequestLimits ten = {.tensors = 10};
  EXPECT_EQ(refusal(eleven(R"({"inputs":[],"outputs":[)", R"({{"name":"{}"}})"), std::nullopt, ten),
            "the list 'outputs' has more than 10 objects");
  EXPECT_EQ(refusal(eleven(R"({"inputs":[)",
                           R"({{"name":"{}","datatype":"INT8","shape":[0],"data":[]}})"),
                    std::nullopt, ten),
            "the list 'inputs' has more than 10 objects");
}

TEST(ReadInfer, LimitsTheJson) {
  const std::string text = refusal(R"({"inputs":[]})", std::nullopt, {.json_bytes = 5});
  EXPECT_NE(text.find("has 13 bytes, but may have 5"), std::string::npos) << text;
}

TEST(WriteInfer, NumbersReadBackEqual) {
  const InferResult result{
      "m", "3", {{"y", Tensor(std::vector<float>{0.1F, 1e-30F, 3})}, {"b", Tensor(true)}}};
  const InferBody body = write_infer({.id = "q\"1"}, result);
  EXPECT_FALSE(body.header_length);
  const nlohmann::json json = nlohmann::json::parse(body.text);
  EXPECT_EQ(json["id"], "q\"1");
  EXPECT_EQ(json["model_name"], "m");
  EXPECT_EQ(json["model_version"], "3");
  EXPECT_EQ(json["outputs"][0]["datatype"], "FP32");
  EXPECT_EQ(json["outputs"][0]["shape"], std::vector<int64_t>{3});
  EXPECT_EQ(json["outputs"][0]["data"].get<std::vector<float>>(),
            (std::vector<float>{0.1F, 1e-30F, 3}));
  EXPECT_EQ(json["outputs"][1]["data"][0], true);
}

TEST(WriteInfer, BinaryAfterTheJson) {
  const InferResult result{"m", "1", {{"y", Tensor(std::vector<int32_t>{7, 8})}}};
  const InferBody body = write_infer({.binary_outputs = true}, result);
  ASSERT_TRUE(body.header_length);
  const auto json = nlohmann::json::parse(body.text.substr(0, *body.header_length));
  EXPECT_EQ(json["outputs"][0]["parameters"]["binary_data_size"], 8);
  int32_t got[2];
  ASSERT_EQ(body.text.size(), *body.header_length + 8);
  std::memcpy(got, body.text.data() + *body.header_length, 8);
  EXPECT_EQ(got[1], 8);
}

// A large answer is refused before it is written, and all of its data counts.
TEST(WriteInfer, ReservesBytesBeforeTheyAreWritten) {
  const InferResult result{
      "m", "1", {{"y", Tensor(std::vector<double>(100000, 1.0 / 3))}, {"b", Tensor(true)}}};
  for (const bool binary : {false, true}) {
    int64_t reserved = 0, first = 0;
    const InferBody body = write_infer({.binary_outputs = binary}, result, [&](int64_t more) {
      if (first == 0) first = more;
      reserved += more;
    });
    EXPECT_EQ(first, binary ? 800001 : 200002);
    EXPECT_GE(reserved + 400, static_cast<int64_t>(body.text.size()));
    EXPECT_LE(reserved, static_cast<int64_t>(body.text.size()) + (64 << 10));
  }
  int calls = 0;
  const Reserve once = [&](int64_t) {
    if (++calls > 1) throw Error(ErrorCode::kUnavailable, "full");
  };
  EXPECT_THROW(write_infer({}, result, once), Error);
  EXPECT_EQ(calls, 2);
}

TEST(WriteInfer, RefusesInfinityAsJson) {
  const InferResult result{"m", "1", {{"y", Tensor(std::vector<float>{1.0F / 0.0F})}}};
  try {
    write_infer({}, result);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("output 'y' has the value inf, which JSON cannot write. Ask for "
                                "binary data"),
              std::string::npos);
  }
}

TEST(WantedOutputs, RefusesUnknownAndRepeated) {
  const auto text = [](const std::vector<WantedOutput>& wanted) -> std::string {
    try {
      check_outputs("m", wanted, {"y", "w"});
    } catch (const Error& error) {
      return error.text();
    }
    return "";
  };
  EXPECT_EQ(text({{"z", false}}), "model 'm' has no output 'z'. Its outputs: y, w");
  EXPECT_EQ(text({{"y", false}, {"y", true}}), "the request wants output 'y' twice");
  EXPECT_EQ(text({{"y", false}}), "");
  // One graph of the function returns less than another.
  const io::NamedTensors all{{"y", Tensor(1.0F)}};
  EXPECT_EQ(wanted_outputs({}, {"w", "y"}, all).size(), 1U);
  try {
    wanted_outputs({{"w", false}}, {"w", "y"}, all);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.text(), "the graph for these inputs has no output 'w'");
  }
}

}  // namespace
}  // namespace etude::serve

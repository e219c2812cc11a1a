// SPDX-License-Identifier: Apache-2.0
// Files of other programs (formats_test.py): their content, the errors for damaged files, and that
// every prefix of each is refused with file and offset.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

#include "etude/io/csv.h"
#include "etude/io/npy.h"
#include "etude/io/png.h"
#include "etude/io/text_lines.h"
#include "etude/io/torch_file.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/warnings.h"

namespace etude::io::formats_test {
namespace {

namespace fs = std::filesystem;
using etude::internal::TempFolder;
using tests::expect_error;
using tests::message_of;
using Bytes = std::vector<uint8_t>;

Bytes content(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}
void put(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}
void run_script(const char* what, const fs::path& folder) {
  const std::string command =
      std::string("python3 etude/io/formats_test.py ") + what + " '" + folder.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

class Formats : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    run_script("write", folder_->path());
  }
  static void TearDownTestSuite() { folder_.reset(); }
  static fs::path path(const std::string& name) { return folder_->path() / name; }
  static std::unique_ptr<TempFolder> folder_;
};
std::unique_ptr<TempFolder> Formats::folder_;

// Every prefix of a file is an error that names file and offset; so is an extra byte at its end.
template <class Parse>
void expect_torn(const fs::path& path, const Parse& parse) {
  const Bytes bytes = content(path);
  ASSERT_GT(bytes.size(), 0u) << path;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const std::string text = message_of([&] { parse(std::span(bytes).first(n), "torn"); });
    EXPECT_NE(text.find("torn: "), std::string::npos) << path << " up to " << n << ": " << text;
    EXPECT_NE(text.find("offset "), std::string::npos) << path << " up to " << n << ": " << text;
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_NE(message_of([&] { parse(longer, "long"); }).find("offset "), std::string::npos) << path;
}

// spec: T19
TEST_F(Formats, ImagesOfAllKindsAreTheirPixels) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder_->path())) {
    if (entry.path().extension() != ".png") continue;
    const Tensor image = read_png(entry.path());
    fs::path expected = entry.path();
    const Tensor pixels = load_npy(expected.replace_extension(".npy"));
    EXPECT_TRUE(same_value(image, pixels)) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 31);
  const Tensor rgba = read_png(path("rgba_8.png"));
  const auto at = [&](int channel) {
    return rgba.to_vector<int>()[static_cast<std::size_t>(channel)];
  };
  for (const int channels : {1, 2, 3, 4}) {
    const Tensor as = read_png(path("rgba_8.png"), {.channels = channels});
    EXPECT_EQ(as.shape(), (Shape{11, 13, channels}));
    const std::vector<int> levels = as.to_vector<int>();
    const double grey = 0.2126 * at(0) + 0.7152 * at(1) + 0.0722 * at(2);
    EXPECT_NEAR(levels[0], channels >= 3 ? at(0) : grey, channels >= 3 ? 0 : 1) << channels;
    EXPECT_EQ(levels[static_cast<std::size_t>(channels - 1)], channels % 2 == 0 ? at(3)
                                                              : channels == 3   ? at(2)
                                                                                : levels[0]);
  }
  expect_error([] { read_png(path("rgba_8.png"), {.channels = 5}); }, ErrorCode::kInvalidArgument,
               {"read_png: channels is 5"});
}

TEST_F(Formats, DamagedImagesNameFileAndOffset) {
  const auto parse = [](std::span<const uint8_t> file, const char* name) {
    decode_png(file, name);
  };
  expect_torn(path("rgb_8.png"), parse);
  expect_torn(path("palette_4_interlaced.png"), parse);
  Bytes altered = content(path("rgb_8.png"));
  altered[60] ^= 1;
  expect_error([&] { parse(altered, "altered"); }, ErrorCode::kDataLoss,
               {"altered: offset ", "CRC"});
  expect_error([] { read_png(path("huge.image")); }, ErrorCode::kDataLoss,
               {"the header declares 60000 x 60000 pixels, more than"});
  expect_error([] { read_png("missing.png"); }, ErrorCode::kNotFound, {"missing.png"});
}

TEST_F(Formats, ImagesAreWrittenAndReadBack) {
  const Tensor rgb = read_png(path("rgb_8.png"));
  write_png(path("copy.png"), rgb);
  EXPECT_TRUE(same_value(read_png(path("copy.png")), rgb));
  write_png(path("levels.png"), Tensor({{0.0, 0.5, 1.0}, {-1.0, 2.0, std::nan("")}}));
  EXPECT_EQ(read_png(path("levels.png")).to_vector<int>(),
            (std::vector<int>{0, 128, 255, 0, 255, 0}));
  fs::remove(path("copy.png"));
  fs::remove(path("levels.png"));
  expect_error([] { write_png(path("x.png"), Tensor({1.0})); }, ErrorCode::kInvalidArgument,
               {"write_png: the image is float32[1], but must be [height, width]"});
  expect_error([] { write_png(path("x.png"), Tensor({{1}})); }, ErrorCode::kInvalidArgument,
               {"the image is int32, but must be uint8 or of floats"});
}

// spec: T19
TEST_F(Formats, FoldersOfImagesAreData) {
  const TempFolder folder;
  for (const std::string name : {"cat", "ant"}) {
    fs::create_directory(folder.path() / name);
    fs::copy(path("rgb_8.png"), folder.path() / name / "b.png");
    fs::copy(path("grey_8.png"), folder.path() / name / "a.png");
  }
  put(folder.path() / "cat" / "c.png", "no image");
  put(folder.path() / "cat" / "notes.txt", "");
  const ImageFolder all = image_folder(folder.path());
  EXPECT_EQ(all.classes, (std::vector<std::string>{"ant", "cat"}));
  const auto load = [](const ImageFile& file) { return load_image(file); };
  const data::MapOptions skip{.parallel = 3, .on_error = data::OnError::kSkip};
  auto walk = data::from_list(all.files).map(load, skip).batch(8).iterate();
  const data::Samples batch = *walk.next();
  EXPECT_EQ(batch.inputs.shape(), (Shape{4, 11, 13, 3}));
  EXPECT_EQ(batch.labels.to_vector<int>(), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(walk.skipped().count, 1);
  EXPECT_NE(walk.skipped().first[0].find("map: element 4: "), std::string::npos);
  EXPECT_NE(walk.skipped().first[0].find("cat/c.png: offset 8"), std::string::npos)
      << walk.skipped().first[0];
  EXPECT_EQ(batch.inputs.to_vector<float>()[0],
            static_cast<float>(read_png(path("grey_8.png")).to_vector<int>()[0]) / 255.0F);
  expect_error([] { image_folder("missing"); }, ErrorCode::kNotFound,
               {"there is no folder 'missing'"});
  const TempFolder empty;
  expect_error([&] { image_folder(empty.path()); }, ErrorCode::kNotFound,
               {"has no file CLASS/NAME.png"});
}

TEST_F(Formats, ArraysOfNumPy) {
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    const NamedTensors all = load_npz(path(name));
    ASSERT_EQ(all.size(), 2u);
    EXPECT_TRUE(same_value(all.at("a"), Tensor(std::vector<int32_t>{1, -2})));
    EXPECT_TRUE(same_value(all.at("b/c"), Tensor(std::vector<double>{0.5, -1}, {1, 2})));
    expect_torn(path(name),
                [](std::span<const uint8_t> file, const char* torn) { parse_npz(file, torn); });
  }
  std::vector<int64_t> counted(24);
  for (std::size_t i = 0; i < 24; ++i) counted[i] = static_cast<int64_t>(i);
  for (const auto& entry : fs::directory_iterator(folder_->path())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("numpy_")) continue;  // where NumPy is installed
    const Tensor x = load_npy(entry.path());
    EXPECT_EQ(x.shape(), (Shape{2, 3, 4})) << name;
    EXPECT_NE(name.find(etude::name(x.dtype())), std::string::npos) << name;
    if (x.dtype() != kBool && !is_complex(x.dtype())) {
      EXPECT_EQ(x.to_vector<int64_t>(), counted) << name;
    }
  }
}

Bytes npy(const std::string& header, std::size_t data_bytes, char version = 1) {
  Bytes out = {0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<uint8_t>(version), 0};
  out.push_back(static_cast<uint8_t>(header.size()));
  out.push_back(0);
  out.insert(out.end(), header.begin(), header.end());
  out.resize(out.size() + data_bytes, 7);
  return out;
}

TEST(Npy, SaysWhatIsWrongWithAFile) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
  EXPECT_EQ(parse_npy(npy(good, 8), "x").shape(), (Shape{2}));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  const struct {
    Bytes file;
    ErrorCode code;
    std::string text;
  } rows[] = {
      {npy(good, 7), ErrorCode::kDataLoss,
       "x: offset 68: the header declares 8 bytes of elements, but 7 follow"},
      {npy(good, 9), ErrorCode::kDataLoss, "but 9 follow"},
      {npy(good, 8, 9), ErrorCode::kUnimplemented, "version 9 of the npy format"},
      {npy(with("<f4", "|O"), 8), ErrorCode::kUnimplemented, "dtype '|O', which Etude has not"},
      {npy(with("'<f4'", "[('a', '<f4')]"), 8), ErrorCode::kUnimplemented, "the array has records"},
      {npy(with("False", "Maybe"), 8), ErrorCode::kDataLoss, "neither True nor False"},
      {npy(with("(2,)", "(-2,)"), 8), ErrorCode::kDataLoss, "no size here"},
      {npy(with("(2,)", "(9223372036854775807, 4)"), 8), ErrorCode::kDataLoss,
       "more than 2^63 bytes"},
      {npy(with("'shape'", "'descr'"), 8), ErrorCode::kDataLoss, "another key: descr"},
      {npy(with(", 'shape': (2,)", ""), 8), ErrorCode::kDataLoss,
       "without descr, fortran_order and shape"},
      {npy(good + "x", 8), ErrorCode::kDataLoss, "text after the header: x"},
      {npy(with("<f4", "|b1"), 2), ErrorCode::kDataLoss,
       "bool 0 of an array is 7, but must be 0 or 1"},
      {Bytes{'P', 'K'}, ErrorCode::kDataLoss, "it does not begin with \\x93NUMPY"},
  };
  for (const auto& row : rows)
    expect_error([&] { parse_npy(row.file, "x"); }, row.code, {row.text});
}

TEST_F(Formats, ArraysAreWrittenForNumPy) {
  const Tensor x({{1.5, 2.5}, {3.5, -4.5}});
  const NamedTensors all = {
      {"x", x}, {"bools", Tensor({true, false})}, {"empty", Tensor(std::vector<float>{}, {3, 0})}};
  save_npy(path("ours.npy"), x);
  save_npz(path("ours.npz"), all);
  save_npz(path("ours_deflated.npz"), all, {.compress = true});
  run_script("check", folder_->path());
  EXPECT_TRUE(same_value(load_npy(path("ours.npy")), x));
  for (const char* name : {"ours.npz", "ours_deflated.npz"}) {
    const NamedTensors again = load_npz(path(name));
    ASSERT_EQ(again.size(), 3u);
    for (const auto& [key, value] : all) EXPECT_TRUE(same_value(again.at(key), value)) << key;
  }
  expect_error([] { save_npy(path("y"), Tensor()); }, ErrorCode::kInvalidArgument, {"is absent"});
}

// spec: K1.d
TEST_F(Formats, PyTorchFilesAreReadWithoutRunningThem) {
  for (const std::string name :
       {"torch_2.pt", "torch_3.pt", "torch_4.pt", "torch_5.pt", "torch_deflated.pt"}) {
    const SafetensorsFile file = load_torch(path(name));
    EXPECT_EQ(file.tensors.size(), 6u) << name;
    const auto is = [&](const std::string& key, const Tensor& value) {
      const auto found = file.tensors.find(key);
      ASSERT_NE(found, file.tensors.end()) << key;
      EXPECT_TRUE(same_value(found->second, value)) << key << ": " << found->second.to_string();
    };
    is("model/fc.weight", Tensor({{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}}));
    is("model/fc.turned", Tensor({{0.0, 3.0}, {1.0, 4.0}, {2.0, 5.0}}));
    is("model/fc.tail", Tensor({4.0, 5.0}));
    is("model/steps", Tensor(std::vector<int64_t>{-7}, Shape{}));
    is("list/1/1", Tensor(std::vector<int64_t>{-7}, Shape{}));
    EXPECT_EQ(file.tensors.at("model/fc.half").dtype(), kBFloat16);
    EXPECT_EQ(file.tensors.at("model/fc.half").to_vector<float>(), (std::vector<float>{1.5, -2}));
    EXPECT_EQ(file.metadata, (Metadata{{"best", "true"},
                                       {"big", "-1099511627776"},
                                       {"epoch", "3"},
                                       {"list/0", "1"},
                                       {"list/1/0", "2"},
                                       {"lr", "0.5"},
                                       {"name", "tiny"}}));
  }
  const auto load = [](const char* name) { return [name] { load_torch(path(name)); }; };
  expect_error(load("torch_evil.pt"), ErrorCode::kUnimplemented,
               {"torch_evil.pt: offset ", "the pickle imports '", "print'", "model.state_dict()"});
  expect_error(load("torch_old.pt"), ErrorCode::kUnimplemented, {"before version 1.6"});
  expect_error(load("torch_far.pt"), ErrorCode::kDataLoss, {"reads elements 3 to 8 of 6"});
  expect_error(load("torch_lost.pt"), ErrorCode::kDataLoss,
               {"no storage '1', which tensor 'w' lies in"});
  expect_error(load("torch_wide.pt"), ErrorCode::kResourceExhausted,
               {"tensor 'w' has 4000000000 bytes: its ", "raise this limit by set_read_limits()"});
  expect_error(load("stored.npz"), ErrorCode::kDataLoss, {"none of PyTorch: it has no data.pkl"});
  expect_torn(path("torch_2.pt"),
              [](std::span<const uint8_t> file, const char* name) { parse_torch(file, name); });
}

// spec: K1.b
TEST_F(Formats, NamesOfPyTorchFitByTheirSeparator) {
  struct Layer {
    Tensor weight{{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
  };
  struct Model {
    Layer fc;
  } model;
  SafetensorsFile file = load_torch(path("torch_2.pt"));
  NamedTensors weights;
  for (auto& [key, tensor] : file.tensors) {
    if (key.starts_with("model/")) weights[key.substr(6)] = tensor;
  }
  const LoadReport report = assign_tensors(model, weights, {.strict = false, .separator = "."});
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"fc/weight"}));
  EXPECT_EQ(report.extra.size(), 4u);
  EXPECT_TRUE(same_value(model.fc.weight, Tensor({{0.0, 1.0, 2.0}, {3.0, 4.0, 5.0}})));
}

std::string shown(const CsvTable& table) {
  std::string text;
  for (const CsvColumn& column : table.columns) {
    text += column.name + ":";
    if (column.values.has_value()) {
      text += std::string(name(column.values.dtype()));
      for (const double v : column.values.to_vector<double>()) {
        std::ostringstream digits;
        digits.precision(17);
        digits << ' ' << v;
        text += digits.str();
      }
    } else {
      text += "text";
      for (const std::string& cell : column.texts) text += " <" + cell + ">";
    }
    text += "; ";
  }
  return text;
}

// spec: T19
TEST(Csv, ColumnsGetTheDtypeThatHoldsThem) {
  using Options = CsvOptions;
  const struct {
    std::string text;
    Options options;
    std::string expected;
  } rows[] = {
      {"a,b,c,d\n1,1.5,true,x\n-2,2,False,y\n",
       {},
       "a:int64 1 -2; b:float64 1.5 2; c:bool 1 0; d:text <x> <y>; "},
      {"a,b\r\n1,\r\n\r\n,2e3\r\n", {}, "a:float64 1 nan; b:float64 nan 2000; "},
      {"a,b\r1,2\r\r3,\"x\ry\"\r", {}, "a:int64 1 3; b:text <2> <x\ry>; "},
      {"a,b\r1\r2,3\r", {.on_error = data::OnError::kSkip}, "a:int64 2; b:int64 3; "},
      {"\xEF\xBB\xBF"
       "a\n1\n2.5\n",
       {},
       "a:float64 1 2.5; "},
      {"a\n1\n2\nx\n", {}, "a:text <1> <2> <x>; "},
      {"a,b\nNA,1\ntrue,x\n", {}, "a:text <> <true>; b:text <1> <x>; "},
      {"a,b\n\"x, \"\"y\"\"\nz\",\"7\"\n", {}, "a:text <x, \"y\"\nz>; b:int64 7; "},
      {"1;2\n3;4", {.delimiter = ';', .header = false}, "0:int64 1 3; 1:int64 2 4; "},
      {"a,b,c\n1,2,3\n", {.columns = {"c", "a"}}, "c:int64 3; a:int64 1; "},
      {"a,b\n1,007\n",
       {.dtypes = {{"a", kFloat32}}, .texts = {"b"}},
       "a:float32 1; b:text <007>; "},
      {"a,b\n1,0\n255,1\n",
       {.dtypes = {{"a", kUInt8}, {"b", kBool}}},
       "a:uint8 1 255; b:bool 0 1; "},
      {"a\n 3 \n+4\n", {}, "a:int64 3 4; "},
      {"a\n9223372036854775808\n-1\n", {}, "a:float64 9.2233720368547758e+18 -1; "},
      {"a\n1e999\n-1e-999\ninf\n", {}, "a:float64 inf -0 inf; "},
      {"a,b\n", {}, "a:float64; b:float64; "},
      {"", {}, ""},
      {"a\n0.1\n", {.dtypes = {{"a", kFloat32}}}, "a:float32 0.10000000149011612; "},
      {"a,b\n1,2,3\n4\n5,x\n6,7\n",
       {.dtypes = {{"b", kInt64}}, .on_error = data::OnError::kSkip},
       "a:int64 6; b:int64 7; "},
      {"a\n\"x\ny\n\"1\"\n", {.on_error = data::OnError::kSkip}, "a:text <y> <1>; "},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(shown(parse_csv(row.text, "x.csv", row.options)), row.expected) << row.text;
  }
}

// spec: T19
TEST(Csv, WholeNumbersKeepAllDigitsOrWarn) {
  const std::string most = "18446744073709551615", half = "9223372036854775808";
  const Tensor large =
      parse_csv("id\n7\n" + half + "\n8\n" + most + "\n", "x.csv").column("id").values;
  ASSERT_EQ(large.dtype(), kUInt64);
  EXPECT_EQ(large.to_vector<uint64_t>(),
            (std::vector<uint64_t>{7, 9223372036854775808U, 8, 18446744073709551615U}));
  std::string many = "id\n";
  for (int i = 0; i < 5000; ++i) many += most + "\n";
  EXPECT_EQ(parse_csv(many, "x.csv").columns[0].values.to_vector<uint64_t>().back(),
            18446744073709551615U);
  const CsvOptions asked{.dtypes = {{"id", kUInt64}}};
  EXPECT_EQ(parse_csv("id\n" + most + "\n", "x.csv", asked).columns[0].values.item<uint64_t>(),
            18446744073709551615U);
  expect_error([&] { parse_csv("id\n-1\n", "x.csv", asked); }, ErrorCode::kDataLoss,
               {"'-1' is no uint64"});
  // A later cell may need another kind.
  EXPECT_EQ(shown(parse_csv("a\n" + half + "\n1.5\n", "x.csv")),
            "a:float64 9.2233720368547758e+18 1.5; ");
  EXPECT_EQ(shown(parse_csv("a\n" + half + "\nx\n", "x.csv")), "a:text <" + half + "> <x>; ");
}

TEST(Csv, LostDigitsAreToldOnce) {
  const std::string odd = "9007199254740993", beyond = "18446744073709551616";
  const struct {
    std::string text, expected;  // no warning where this is empty
  } rows[] = {
      {"id,x\n" + odd + ",1\n,2\n",
       "column 'id' holds whole numbers, but becomes float64, which "
       "does not hold 9007199254740993: a value is missing."},
      {"id,x\n,1\n" + odd + ",2\n", "9007199254740993: a value is missing"},
      {"id,x\n-1,1\n9223372036854775809,2\n", "9223372036854775809: no integer dtype holds all"},
      {"id,x\n9223372036854775809,1\n-1,2\n", "9223372036854775809: no integer dtype holds all"},
      {"id,x\n" + beyond + ",1\n", beyond.substr(1)},
      {"id,x\n9007199254740992,1\n,2\n", ""},   // float64 holds it
      {"id,x\n0.5,1\n" + odd + ",2\n", ""},     // a column of fractions
      {"id,x\n1e30,1\n" + odd + ".0,2\n", ""},  // written as floats
      {"id,x\n1,1\n" + odd + ",2\n", ""},       // int64
  };
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const tests::Warnings heard;
    const std::string name = "lost" + std::to_string(i) + ".csv";
    for (int turn = 0; turn < 2; ++turn) parse_csv(rows[i].text, name);
    ASSERT_EQ(heard.told.size(), rows[i].expected.empty() ? 0U : 1U) << rows[i].text;
    if (heard.told.empty()) continue;
    EXPECT_NE(heard.told[0].find(rows[i].expected), std::string::npos) << heard.told[0];
    EXPECT_NE(heard.told[0].find(name), std::string::npos) << heard.told[0];
    EXPECT_NE(heard.told[0].find(".texts = {\"id\"}"), std::string::npos) << heard.told[0];
  }
}

TEST(Csv, BadCellsNameFileLineColumnAndOffset) {
  const CsvOptions typed{.dtypes = {{"b", kInt32}}};
  const struct {
    std::string text;
    CsvOptions options;
    ErrorCode code;
    std::string expected;
  } rows[] = {
      {"a,b\n1,2\n3,x\n", typed, ErrorCode::kDataLoss,
       "x.csv: line 3, column 'b', offset 10: 'x' is no int32"},
      {"a,b\n\"1\n\",2\n3,2147483648\n", typed, ErrorCode::kDataLoss,
       "x.csv: line 4, column 'b', offset 13: '2147483648' is no int32"},
      {"a,b\r1,2\r3,x\r", typed, ErrorCode::kDataLoss,
       "x.csv: line 3, column 'b', offset 10: 'x' is no int32"},
      {"a,b\n1,\n", typed, ErrorCode::kDataLoss,
       "column 'b', offset 6: a value is missing, which int32"},
      {"a,b\n1\n",
       {},
       ErrorCode::kDataLoss,
       "x.csv: line 2, offset 4: the row has 1 cells, but there are 2"},
      {"a,b\n1,2,3,4\n", {}, ErrorCode::kDataLoss, "the row has 4 cells, but there are 2 columns"},
      {"a\n\"x\n",
       {},
       ErrorCode::kDataLoss,
       "x.csv: line 2, offset 2: the quoted cell that begins here"},
      {"a\n\"x\"y\n", {}, ErrorCode::kDataLoss, "has text after its closing quote"},
      {"a,a\n", {}, ErrorCode::kDataLoss, "the header at line 1 has two columns 'a'"},
      {"a,b\n",
       {.columns = {"c"}},
       ErrorCode::kNotFound,
       "there is no column 'c'; there are 'a', 'b'"},
      {"a\n",
       {.dtypes = {{"a", kComplex64}}},
       ErrorCode::kInvalidArgument,
       "CSV has no numbers of dtype complex64"},
      {"a\n", {.delimiter = '"'}, ErrorCode::kInvalidArgument, "the delimiter is a quote"},
  };
  for (const auto& row : rows) {
    expect_error([&] { parse_csv(row.text, "x.csv", row.options); }, row.code,
                 {"read_csv: ", row.expected});
  }
  const CsvTable table = parse_csv("a,b\n1\n3,4\n", "x.csv", {.on_error = data::OnError::kSkip});
  EXPECT_EQ(table.skipped.count, 1);
  EXPECT_NE(table.skipped.first[0].find("x.csv: line 2, offset 4"), std::string::npos);
}

TEST(Csv, ColumnsMakeMatrices) {
  const TempFolder folder;
  put(folder.path() / "t.csv", "a,b,c\n1,2.5,x\n3,4.5,y\n");
  const CsvTable table = read_csv(folder.path() / "t.csv");
  EXPECT_EQ(table.rows, 2);
  EXPECT_TRUE(same_value(table.matrix(), Tensor({{1.0, 2.5}, {3.0, 4.5}})));
  EXPECT_TRUE(same_value(table.matrix({"b"}), Tensor({{2.5}, {4.5}})));
  EXPECT_EQ(table.column("c").texts, (std::vector<std::string>{"x", "y"}));
  expect_error([&] { table.matrix({"c"}); }, ErrorCode::kInvalidArgument, {"column 'c' is text"});
  expect_error([&] { table.column("d"); }, ErrorCode::kNotFound, {"there are: a, b, c"});
  expect_error([] { read_csv("missing.csv"); }, ErrorCode::kNotFound, {"missing.csv"});
}

// spec: T19
TEST(TextLines, AreElements) {
  const TempFolder folder;
  const std::string path = folder.path() / "t.txt";
  const std::pair<const char*, std::vector<std::string>> rows[] = {
      {"", {}}, {"\n", {""}}, {"a\nb", {"a", "b"}}, {"a\r\n\nc\n", {"a", "", "c"}}};
  for (const auto& [text, expected] : rows) {
    put(path, text);
    std::vector<std::string> lines;
    for (const std::string& line : text_lines(path)) lines.push_back(line);
    EXPECT_EQ(lines, expected) << text;
  }
  auto walk = text_lines(path).iterate();
  walk.seek(2);
  EXPECT_EQ(walk.next(), "c");
  // The error of a bad line names its place; a bad line can be skipped.
  put(path, "1\r\n2\nthree\n4");
  const auto numbers = [](const std::string& line) { return std::stoi(line); };
  auto parsed = map_lines(path, numbers).iterate();
  parsed.seek(1);
  EXPECT_EQ(parsed.next(), 2);
  const std::string told = "map: element 2: " + path + ": line 3, offset 5: stoi";
  expect_error([&] { parsed.next(); }, ErrorCode::kDataLoss, {told});
  auto others =
      map_lines(path, numbers, {.parallel = 3, .on_error = data::OnError::kSkip}).iterate();
  for (const int wanted : {1, 2, 4}) EXPECT_EQ(others.next(), wanted);
  EXPECT_EQ(others.skipped().count, 1);
  expect_error(
      [&] {
        map_lines(path,
                  [](std::string) -> int { throw Error(ErrorCode::kOutOfRange, "no such class"); })
            .iterate()
            .next();
      },
      ErrorCode::kOutOfRange, {": line 1, offset 0: no such class"});
  expect_error([] { text_lines("missing.txt").iterate(); }, ErrorCode::kNotFound, {"missing.txt"});
}

}  // namespace
}  // namespace etude::io::formats_test

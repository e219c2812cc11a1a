// SPDX-License-Identifier: Apache-2.0
// Coordinates of SVG are read as text.
#include "etude/io/picture.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <gtest/gtest.h>

#include "etude/core/create.h"
#include "etude/io/confusion_svg.h"
#include "etude/ops.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::io {
namespace {

using etude::internal::TempFolder;
using etude::tests::error_of;
using etude::tests::expect_error;

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class PictureTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::string path_ = (folder_.path() / "picture.svg").string();
};

TEST_F(PictureTest, GridPutsImagesSideBySide) {
  const Tensor images = reshape(astype(arange(1, {.stop = 4}), kFloat32), {3, 1, 1});
  const Tensor grid = image_grid(images, {.columns = 2, .background = 9});
  EXPECT_EQ(grid.shape(), (Shape{5, 5, 1}));
  EXPECT_EQ(grid.to_vector<float>(), (std::vector<float>{9, 9, 9, 9, 9, 9, 1, 9, 2, 9, 9, 9, 9,
                                                         9, 9, 9, 3, 9, 9, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(image_grid(zeros({7, 4, 6, 3}), {.margin = 0}).shape(), (Shape{12, 18, 3}));
}

TEST_F(PictureTest, GridRefusesOtherTensors) {
  const auto text = [](const Tensor& x) {
    return error_of(ErrorCode::kInvalidArgument, [&] { image_grid(x); });
  };
  EXPECT_NE(text(zeros({2})).find("operand 'images' has shape [2], but must be [n, height, width]"),
            std::string::npos);
  EXPECT_NE(text(zeros({0, 2, 2})).find("at least one image"), std::string::npos);
  EXPECT_NE(text(zeros({1, 1, 1}, {.dtype = kInt32})).find("is int32, but must be floating"),
            std::string::npos);
}

TEST_F(PictureTest, SvgShowsCurves) {
  const float inf = std::numeric_limits<float>::infinity();
  write_svg(path_, {{"a<b", {0, 1, inf, 3, 2}}, {"other", {1, 2}, {0, 4}}},
            {.title = "\"R\x01&D\"", .x = "step", .y = "loss", .width = 480, .height = 280});
  const std::string svg = read(path_);
  // Pixels: x from 64 to 464 for 0 to 4, y from 232 down to 32 for 0 to 3.
  EXPECT_NE(svg.find(R"(points="64.0,232.0 164.0,165.3")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(points="364.0,32.0 464.0,98.7")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(points="64.0,165.3 464.0,98.7")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">a&lt;b<"), std::string::npos);
  EXPECT_NE(svg.find(">&quot;R&amp;D&quot;<"), std::string::npos);
  EXPECT_NE(svg.find(">3</text>"), std::string::npos) << "round ticks";
  EXPECT_EQ(svg.find(">0.6</text>"), std::string::npos);
}

// spec: M5
TEST_F(PictureTest, SvgShowsAConfusionMatrix) {
  nn::Confusion confusion;
  expect_error([&] { write_confusion_svg(path_, confusion); }, ErrorCode::kInvalidArgument,
               {"write_confusion_svg: the matrix has no samples", "picture_test.cc"});
  // Of three of class 0 one is taken for class 1; class 1 is found.
  const Tensor scores({{1.0, 0.0}, {1.0, 0.0}, {0.0, 1.0}, {0.0, 1.0}});
  confusion.update(scores, Tensor({0, 0, 0, 1}));
  const std::string_view names[] = {"a<b", "c"};
  write_confusion_svg(path_, confusion, names);
  const std::string svg = read(path_);
  for (
      const char* part :
      {R"(<rect x="96" y="48" width="43" height="43" fill="#55a1cb"/><text x="118" y="74" fill="#fff">2<)",
       R"(<rect x="140" y="48" width="43" height="43" fill="#aad0e5"/><text x="162" y="74" fill="#000">1<)",
       R"(<rect x="96" y="92" width="43" height="43" fill="#ffffff"/><rect x="140")",
       R"(fill="#0072b2"/><text x="162" y="118" fill="#fff">1<)", ">a&lt;b<"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part << " is not in " << svg;
  }
  expect_error([&] { write_confusion_svg(path_, confusion, std::span(names, 1)); },
               ErrorCode::kInvalidArgument, {"there are 1 names, but 2 classes"});
}

TEST_F(PictureTest, SvgOfManyPointsKeepsExtremes) {
  std::vector<float> y(100000, 1.0F);
  y[54321] = 5, y[54325] = -3;
  write_svg(path_, {{"y", y}}, {.width = 480, .height = 280});
  const std::string svg = read(path_);
  EXPECT_LT(svg.size(), 40000u);
  EXPECT_NE(svg.find(",32.0 "), std::string::npos) << "the highest";
  EXPECT_NE(svg.find(",232.0 "), std::string::npos) << "the lowest";
}

TEST_F(PictureTest, SvgOfLogarithmsAndOfNothing) {
  write_svg(path_, {{"y", {1, 100, 0, 10000}}}, {.log_y = true, .width = 480, .height = 280});
  const std::string svg = read(path_);
  EXPECT_NE(svg.find(R"(points="64.0,232.0 197.3,132.0")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">1e2</text>"), std::string::npos) << svg;
  write_svg(path_, {{"none", {}}, {"constant", {2, 2}}});
  EXPECT_NE(read(path_).find("</svg>"), std::string::npos);
  EXPECT_NE(error_of(ErrorCode::kInvalidArgument,
                     [&] {
                       write_svg(path_, {{"c", {1, 2}, {1}}});
                     })
                .find("curve 'c' has 1 values of x and 2 of y"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::io

// SPDX-License-Identifier: Apache-2.0
#include "etude/files/png_bytes.h"

#include <cmath>

#include <gtest/gtest.h>

#include "etude/core/create.h"
#include "tests/expect_error.h"

namespace etude::internal {
namespace {

TEST(PngBytes, GiveBackLevels) {
  const Tensor image = tensor({{0.0, 0.5, 1.0}, {-1.0, 2.0, std::nan("")}});
  const Tensor read = image_of_png(png_of_image(image), "image", 1);
  EXPECT_EQ(read.shape(), Shape({2, 3, 1}));
  EXPECT_EQ(read.to_vector<int>(), (std::vector<int>{0, 128, 255, 0, 255, 0}));
  EXPECT_EQ(image_of_png(png_of_image(read), "image", 4).shape(), Shape({2, 3, 4}));
}

TEST(PngBytes, ErrorsSayWhatAnImageIs) {
  const auto refusal = [](const Tensor& image) {
    return tests::error_of(ErrorCode::kInvalidArgument, [&] { png_of_image(image); });
  };
  EXPECT_NE(refusal(Tensor()).find("the tensor has no value"), std::string::npos);
  EXPECT_NE(refusal(tensor({1.0})).find("must be [height, width]"), std::string::npos);
  EXPECT_NE(refusal(tensor({{1}})).find("must be uint8 or of floats"), std::string::npos);
}

}  // namespace
}  // namespace etude::internal

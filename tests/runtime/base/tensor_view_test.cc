#include "runtime/base/tensor_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of_elements(const auto& view) {
  return testing::message_of([&] { (void)view.template as<float>(); });
}

TEST(TensorViewTest, HasNoElementsOnMeta) {
  const TensorView view{reinterpret_cast<void*>(kFirstMetaAddress + 64), DType::kInt32, {4}};
  const auto says_why =
      AllOf(HasSubstr("has no values: it lives on the meta device"), HasSubstr("int32 [4]"));
  EXPECT_THAT(error_of_elements(view), says_why);
  EXPECT_THAT(error_of_elements(ConstTensorView(view)), says_why);
}

TEST(TensorViewTest, HasElementsElsewhere) {
  float values[2] = {1, 2};
  const TensorView view{values, DType::kFloat32, {2}};
  EXPECT_EQ(view.as<float>(), values);
  EXPECT_EQ(ConstTensorView(view).as<float>(), values);
  EXPECT_EQ(TensorView{}.as<float>(), nullptr);
  EXPECT_EQ(ConstTensorView{}.as<float>(), nullptr);
}

}  // namespace
}  // namespace trireme

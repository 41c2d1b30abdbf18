#include "runtime/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of_data(const Tensor& tensor) {
  try {
    (void)tensor.data();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "none";
}

TEST(TensorTest, DataOnMetaIsAnErrorThatSaysWhatToDo) {
  const Context ctx = Context::create({DeviceType::kMeta}, 1);
  const Tensor x = ctx.empty({2, 3}, DType::kBFloat16);
  const auto says_what_to_do =
      AllOf(HasSubstr("this tensor has no values: it lives on the meta device"), HasSubstr("bf16 [2, 3]"),
            HasSubstr("decide by shapes alone"), HasSubstr("traits(tensor.device().type).computes"));
  EXPECT_THAT(error_of_data(x), says_what_to_do);
  EXPECT_THAT(error_of_data(x.reshape({3, 2})), HasSubstr("bf16 [3, 2]"));
  EXPECT_THAT(error_of_data(x.slice(4, {1})), HasSubstr("bf16 [1]"));
}

// Ops pass addresses on, and communicators compare them.
TEST(TensorTest, AddressesAndViewsExistOnMeta) {
  const Context ctx = Context::create({DeviceType::kMeta}, 1);
  const Tensor x = ctx.empty({2, 3});
  const auto* const first = static_cast<const std::byte*>(x.address());
  EXPECT_TRUE(is_meta_address(first));
  EXPECT_EQ(x.slice(4, {2}).address(), first + 4 * sizeof(float));
  EXPECT_EQ(x.view().data, first);
  EXPECT_EQ(x.const_view().data, first);
  EXPECT_EQ(x.rows().data, first);
  EXPECT_TRUE(x.view().defined());
  EXPECT_EQ(ctx.to_host(ctx.zeros({2})), (std::vector<float>{0, 0}));
}

TEST(TensorTest, DataIsTheAddressWhereThereAreValues) {
  const Context ctx = Context::create({DeviceType::kCpu}, 1);
  const Tensor x = ctx.empty({2, 3});
  EXPECT_EQ(x.data(), x.address());
  EXPECT_EQ(x.slice(1, {2}).data(), static_cast<float*>(x.data()) + 1);
  EXPECT_EQ(Tensor().data(), nullptr);
  EXPECT_EQ(Tensor().address(), nullptr);
}

}  // namespace
}  // namespace trireme

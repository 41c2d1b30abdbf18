#include "launcher/state/measured_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

MeasuredProducts example() {
  MeasuredProducts products{.facts = {{"GPU", "NVIDIA H100, sm_90"}, {"cuBLASLt", "13.1.0"}}, .choices = {}};
  products.choices[{.m = 8192, .n = 2304, .k = 768, .transpose_b = Transpose::kYes, .alignment = 64}] = {
      .algorithm = {0x42, 0xFFFFFFFFFFFFFFFF, 0, 0, 0, 0, 0, 1},
      .description = "id 66, tile 20",
      .candidate = 2,
      .num_candidates = 9,
      .us = 41.25,
      .first_us = 0.1};
  products.choices[{.m = 1,
                    .n = 2,
                    .k = 3,
                    .transpose_a = Transpose::kYes,
                    .in = DType::kE5m2,
                    .out = DType::kBFloat16,
                    .math = MathMode::kTf32,
                    .epilogue = Epilogue::kGeluAuxBias,
                    .add_c = true,
                    .a_pitch = 5,
                    .b_pitch = 6,
                    .d_pitch = 7,
                    .alignment = 2}] = {.us = 1.0 / 3, .first_us = 1.0 / 3};
  return products;
}

TEST(MeasuredProducts, ComeBackFromJson) {
  EXPECT_EQ(products_of(nlohmann::json::parse(to_json(example()).dump())), example());
  EXPECT_EQ(products_of(to_json(MeasuredProducts())), MeasuredProducts());
}

TEST(MeasuredProducts, ComeBackFromAFile) {
  const testing::TemporaryFolder folder;
  write_products(folder / "products.json", example());
  EXPECT_EQ(read_products(folder / "products.json"), example());
}

TEST(MeasuredProducts, EveryDamageIsOneError) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "products.json";
  const std::string text = to_json(example()).dump(1);
  const auto refusal = [&](const std::string& damaged) {
    testing::write_file(file, damaged);
    return error_message([&] { read_products(file); });
  };
  EXPECT_THAT(refusal(text.substr(0, text.size() / 2)), HasSubstr("products.json is damaged"));
  EXPECT_THAT(refusal("[]"), HasSubstr("products.json is damaged"));
  EXPECT_THAT(refusal("{\"checksum\": 3}"), HasSubstr("products.json is damaged"));
  // Change single digits.
  for (std::size_t at = 0; at < text.size(); at += 7) {
    if (text[at] < '0' || text[at] > '8') continue;
    std::string damaged = text;
    ++damaged[at];
    EXPECT_THAT(refusal(damaged),
                AllOf(HasSubstr("products.json is damaged, or is not a table of measured products"),
                      HasSubstr("Remove it to measure them again")))
        << at;
  }
}

TEST(MeasuredProducts, AreGoodForACardAndItsLibrary) {
  EXPECT_EQ(product_facts({{"GPU", "a"}, {"cuBLASLt", "b"}, {"NCCL", "c"}, {"build", "d"}}),
            (ProductFacts{{"GPU", "a"}, {"cuBLASLt", "b"}}));
}

TEST(MeasuredProducts, AreDescribed) {
  ProductTable table = example().choices;
  const Product product = table.rbegin()->first;
  table.at(product).first_us = 55;
  EXPECT_EQ(
      describe(product, table.at(product)),
      "fp32 NT [8192 x 2304 x 768] to fp32: 41.2 us with proposal 3 of 9 (id 66, tile 20), 55.0 us with the "
      "first: 25.0 % less");
  EXPECT_EQ(describe(table),
            "2 products measured, 1 of them faster than the heuristics' choice, by up to "
            "25.0 %");
}

}  // namespace
}  // namespace trireme

// Measured products in the report of engines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/job/build.h"
#include "launcher/report/engines_report.h"
#include "parallel/foresee/product_measure.h"
#include "tests/kernels/cuda/emulation/emulation.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// `trireme doctor --engines` with the key.
TEST(EnginesReport, ShowsTheChoicesOfProducts) {
  JobConfig config;
  config.model = {.layers = 1, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
  config.data.kind = DataKind::kSynthetic;
  config.train = {.steps = 2, .global_batch = 2, .micro_batch = 2};
  config.precision.mode = PrecisionMode::kBf16;
  const PlannedJob job = planned_job(config, build_blocks(config.model), 1);
  constexpr Device kCard{DeviceType::kCuda, 0};
  emulation::product_algorithms().us = [](int i) { return i == 2 ? 200.0 : 300.0; };
  std::vector<CallTime> times;
  measure_call_times(record_step(job), {.device = kCard, .ms_a_call = 0.01, .measure_products = true},
                     [&](const CallTime& time) { times.push_back(time); });
  std::string text = to_text(times);
  for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;)
    text.replace(at, 3, " ");  // joins wrapped lines
  EXPECT_THAT(text,
              HasSubstr("200.0 us with proposal 3 of 4 (id 2, tile 0, stages 0, splits 1), 300.0 us with the "
                        "first: 33.3 % less"));
  std::size_t num_products = 0;
  for (const CallTime& time : times) {
    const auto json = to_json(time);
    EXPECT_EQ(json.contains("products"), !time.products.empty());
    num_products += time.products.size();
  }
  EXPECT_EQ(num_products, measure_products(job, {.device = kCard, .threads = 1, .known = {}}).size());
  emulation::product_algorithms().us = {};
}

}  // namespace
}  // namespace trireme

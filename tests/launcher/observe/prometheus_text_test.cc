#include "launcher/observe/prometheus_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace trireme {
namespace {

TEST(PrometheusText, FamiliesAndSamples) {
  PrometheusText text(MetricLabels{{"run", "a"}});
  text.gauge("trireme_loss", "The loss.", 0.1);
  text.family("trireme_phase_seconds_total", MetricType::kCounter, "Seconds.")
      .sample(1e-7, {{"phase", "x"}})
      .sample(std::int64_t{1} << 62);
  EXPECT_EQ(text.text(),
            "# HELP trireme_loss The loss.\n"
            "# TYPE trireme_loss gauge\n"
            "trireme_loss{run=\"a\"} 0.1\n"
            "# HELP trireme_phase_seconds_total Seconds.\n"
            "# TYPE trireme_phase_seconds_total counter\n"
            "trireme_phase_seconds_total{run=\"a\",phase=\"x\"} 1e-07\n"
            "trireme_phase_seconds_total{run=\"a\"} 4611686018427387904\n");
}

TEST(PrometheusText, EscapesLabelsAndHelp) {
  PrometheusText text(MetricLabels{{"run", "a\\b\"c\"\nd"}});
  text.gauge("x", "one \\ \"two\"\nthree", std::int64_t{1});
  EXPECT_EQ(text.text(),
            "# HELP x one \\\\ \"two\"\\nthree\n# TYPE x gauge\nx{run=\"a\\\\b\\\"c\\\"\\nd\"} 1\n");
}

TEST(PrometheusText, NumbersThatAreNotFiniteHaveNames) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  PrometheusText text(MetricLabels{});
  text.family("x", MetricType::kGauge, "")
      .sample(std::numeric_limits<double>::quiet_NaN())
      .sample(kInfinity)
      .sample(-kInfinity);
  EXPECT_TRUE(text.text().ends_with("x NaN\nx +Inf\nx -Inf\n")) << text.text();
}

TEST(PrometheusText, AHistogramCountsWhatIsBelowEachBound) {
  Histogram histogram;
  for (const double value : {0.0005, 0.001, 0.0011, 1e9}) histogram.observe(value);
  PrometheusText text(MetricLabels{});
  text.family("s", MetricType::kHistogram, "").sample(histogram);
  EXPECT_NE(text.text().find("s_bucket{le=\"0.001\"} 2\ns_bucket{le=\"0.002\"} 3\n"), std::string::npos);
  EXPECT_NE(text.text().find("s_bucket{le=\"200\"} 3\ns_bucket{le=\"+Inf\"} 4\n"), std::string::npos);
  EXPECT_TRUE(text.text().ends_with("s_count 4\n"));
}

}  // namespace
}  // namespace trireme

#include "launcher/observe/gpu_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuMetrics, GpusAsPrometheusHasThem) {
  PrometheusText text(MetricLabels{{"run", "r"}});
  write_gpus(text, {{.index = 0,
                     .name = "H200",
                     .uuid = "u",
                     .temperature_celsius = 70,
                     .throttle_bits = 0x40,
                     .utilization = 0.5,
                     .ecc_corrected = 2,
                     .nvlink_errors = {{"replay", 3}},
                     .xid_errors = 1,
                     .last_xid = 79},
                    {.index = 1, .lost = true}});
  for (const char* sample :
       {"trireme_gpu_info{run=\"r\",gpu=\"0\",name=\"H200\",uuid=\"u\",pci_bus_id=\"\"} 1\n",
        "trireme_gpu_lost{run=\"r\",gpu=\"0\"} 0\n", "trireme_gpu_lost{run=\"r\",gpu=\"1\"} 1\n",
        "trireme_gpu_temperature_celsius{run=\"r\",gpu=\"0\"} 70\n",
        "trireme_gpu_throttled{run=\"r\",gpu=\"0\",reason=\"hardware_thermal\"} 1\n",
        "trireme_gpu_throttled{run=\"r\",gpu=\"0\",reason=\"power_cap\"} 0\n",
        "trireme_gpu_utilization_ratio{run=\"r\",gpu=\"0\"} 0.5\n",
        "trireme_gpu_ecc_errors_total{run=\"r\",gpu=\"0\",kind=\"corrected\"} 2\n",
        "trireme_gpu_nvlink_errors_total{run=\"r\",gpu=\"0\",kind=\"replay\"} 3\n",
        "trireme_gpu_xid_errors_total{run=\"r\",gpu=\"0\"} 1\n",
        "trireme_gpu_last_xid{run=\"r\",gpu=\"0\"} 79\n"}) {
    EXPECT_THAT(text.text(), HasSubstr(sample));
  }
  for (const char* other :
       {"trireme_gpu_power_watts", "trireme_gpu_temperature_celsius{run=\"r\",gpu=\"1\"}"}) {
    EXPECT_THAT(text.text(), Not(HasSubstr(other)));
  }
}

TEST(GpuMetrics, AMachineWithoutGpusHasNoNamesOfThem) {
  const GpuMetrics gpus(std::vector<std::string>{});
  PrometheusText text(MetricLabels{});
  gpus.write(text);
  EXPECT_EQ(text.text(), "");
}

}  // namespace
}  // namespace trireme

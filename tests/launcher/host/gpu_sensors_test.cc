// tests/support/fake_nvml.cc replaces NVML.
#include "launcher/host/gpu_sensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

class GpuSensorsTest : public ::testing::Test {
 protected:
  GpuSensorsTest() { setenv("FAKE_NVML_STATE", (scratch_ / "state").c_str(), 1); }
  ~GpuSensorsTest() override { unsetenv("FAKE_NVML_STATE"); }
  void change(const std::string& state) { testing::write_file(scratch_ / "state", state); }

  testing::TemporaryFolder scratch_;
};

TEST_F(GpuSensorsTest, WithoutTheLibraryThereAreNone) {
  EXPECT_TRUE(GpuSensors(std::nullopt, "libno-such-library.so.1").read().empty());
}

TEST_F(GpuSensorsTest, ReadsAllThatACardTells) {
  GpuSensors sensors(std::nullopt, FAKE_NVML_PATH);
  const std::vector<GpuReading> gpus = sensors.read();
  ASSERT_EQ(gpus.size(), 2u);
  const GpuReading& gpu = gpus[0];
  EXPECT_EQ(gpu.name, "Fake \"H200\"");
  EXPECT_EQ(gpu.uuid, "GPU-0");
  EXPECT_FALSE(gpu.lost);
  EXPECT_EQ(gpu.temperature_celsius, 60);
  EXPECT_EQ(gpu.power_watts, 350.5);
  EXPECT_EQ(gpu.power_limit_watts, 700);
  EXPECT_EQ(gpu.energy_joules, 12);
  EXPECT_EQ(gpu.sm_clock_hertz, 1755e6);
  EXPECT_EQ(gpu.sm_clock_max_hertz, 1980e6);
  EXPECT_EQ(gpu.memory_clock_hertz, 2619e6);
  EXPECT_EQ(gpu.throttle_bits, 0u);
  EXPECT_EQ(gpu.utilization, 0.95);
  EXPECT_EQ(gpu.memory_bandwidth_utilization, 0.4);
  EXPECT_EQ(gpu.memory_used_bytes, 600);
  EXPECT_EQ(gpu.memory_total_bytes, 1000);
  EXPECT_EQ(gpu.ecc_corrected, 3);
  EXPECT_EQ(gpu.ecc_uncorrected, 0);
  EXPECT_EQ(gpu.pcie_replays, 2);
  // Four links.
  const std::vector<std::pair<std::string, double>> links(gpu.nvlink_errors.begin(), gpu.nvlink_errors.end());
  EXPECT_EQ(links, (std::vector<std::pair<std::string, double>>{
                       {"replay", 0}, {"recovery", 4}, {"crc_flit", 8}, {"crc_data", 12}}));
  EXPECT_EQ(gpu.xid_errors, 0);
  EXPECT_FALSE(gpu.last_xid);
  EXPECT_EQ(gpus[1].index, 1);
}

TEST_F(GpuSensorsTest, WhatACardDoesNotTellIsLeftOut) {
  GpuSensors sensors(std::nullopt, FAKE_NVML_PATH);
  const GpuReading gpu = sensors.read().at(1);
  EXPECT_FALSE(gpu.ecc_corrected);
  EXPECT_FALSE(gpu.xid_errors);
  EXPECT_EQ(gpu.temperature_celsius, 60);
}

TEST_F(GpuSensorsTest, CardsAreChosenByTheirPlaceOnTheBus) {
  using Places = std::vector<std::string>;
  EXPECT_TRUE(GpuSensors(Places{}, FAKE_NVML_PATH).read().empty());
  GpuSensors second(Places{"0000:2A:00.0", "0000:FF:00.0"}, FAKE_NVML_PATH);
  const std::vector<GpuReading> gpus = second.read();
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].index, 1);
  EXPECT_EQ(gpus[0].pci_bus_id, "0000:2A:00.0");
}

TEST_F(GpuSensorsTest, ALostCardStaysAmongThem) {
  GpuSensors sensors(std::nullopt, FAKE_NVML_PATH);
  change("0 lost 1\n1 temperature 91\n");
  std::vector<GpuReading> gpus = sensors.read();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_TRUE(gpus[0].lost);
  EXPECT_FALSE(gpus[0].temperature_celsius);
  EXPECT_FALSE(gpus[1].lost);
  EXPECT_EQ(gpus[1].temperature_celsius, 91);
  change("");
  gpus = sensors.read();
  EXPECT_FALSE(gpus[0].lost);
}

TEST_F(GpuSensorsTest, XidsAreCounted) {
  GpuSensors sensors(std::nullopt, FAKE_NVML_PATH);
  change("0 xid 79\n");
  sensors.read();
  change("0 xid 63\n");
  sensors.read();
  change("0 xid 79\n");
  GpuReading gpu = sensors.read().at(0);
  EXPECT_EQ(gpu.xid_errors, 3);
  EXPECT_EQ(gpu.last_xid, 79u);
  EXPECT_EQ(sensors.read().at(0).xid_errors, 3);  // each counted once
}

}  // namespace
}  // namespace trireme

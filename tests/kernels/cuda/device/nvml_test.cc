// The management library, emulated in emulation/nvml.cc. It orders the cards differently than CUDA.
#include "kernels/cuda/device/nvml.h"

#include <gtest/gtest.h>

namespace trireme::cuda {
namespace {

using Lines = std::vector<std::string>;

TEST(Nvml, FindsCardsByTheirPlaceOnTheBus) {
  const Nvml nvml(EMULATED_NVML_PATH);
  EXPECT_EQ(nvml.driver_version(), "580.65.06");
  EXPECT_EQ(nvml.links({"0000:1A:00.0", "0000:3B:00.0", "0000:5C:00.0"}),
            (Lines{"0 - 1: 4 NVLinks on 0, across CPU sockets", "0 - 2: 4 NVLinks on 0, PCIe, same switch",
                   "1 - 2: across CPU sockets"}));
  // Each process chooses the cards that it sees and their order (CUDA_VISIBLE_DEVICES).
  EXPECT_EQ(nvml.links({"0000:3B:00.0", "0000:1A:00.0"}), (Lines{"0 - 1: across CPU sockets"}));
  EXPECT_EQ(nvml.links({"0000:3B:00.0"}), Lines{});
}

TEST(Nvml, LeavesOutWhatTheLibraryDoesNotKnow) {
  const Nvml nvml(EMULATED_NVML_PATH);
  EXPECT_EQ(nvml.links({"0000:1A:00.0", "", "0000:5C:00.0"}),
            (Lines{"0 - 2: 4 NVLinks on 0, PCIe, same switch"}));
}

TEST(Nvml, IsEmptyWithoutTheLibrary) {
  const Nvml nvml("libno-such-library.so.1");
  EXPECT_EQ(nvml.driver_version(), "");
  EXPECT_EQ(nvml.links({"0000:1A:00.0", "0000:3B:00.0"}), Lines{});
}

}  // namespace
}  // namespace trireme::cuda

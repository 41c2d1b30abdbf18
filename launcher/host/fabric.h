// The network interfaces, RDMA adapters and GPUDirect modules of a host. All are read from sysfs, so the
// report needs neither libibverbs nor CUDA.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct NetworkInterface {
  std::string name;
  bool is_up = false;
  std::optional<std::int64_t> mbit_per_s;  // null: unknown, as for virtual interfaces
  std::int64_t mtu = 0;
};

struct RdmaPort {
  std::string device;  // "mlx5_0"
  std::string port;    // "1"
  std::string link;    // "InfiniBand", or "Ethernet" for RoCE
  std::string state;   // "ACTIVE"
  double gbit_per_s = 0;

  bool is_active() const { return state == "ACTIVE"; }
};

struct HostFabric {
  std::string host;
  std::vector<NetworkInterface> interfaces;  // by name, without loopback
  std::vector<RdmaPort> rdma;                // by name
  std::vector<std::string> gpu_direct;       // loaded kernel modules for RDMA to GPU memory
  bool has_gpus = false;                     // by the kernel's driver
};

/// `root` replaces "/" in tests.
HostFabric read_fabric(const std::string& host, const std::filesystem::path& root = "/");

/// The rate at which a host can send to others, and receive at the same time.
struct HostLink {
  std::string by;  // "mlx5_0, mlx5_1"; "eth0"
  double gb_per_s = 0;
};

/// All active RDMA ports together; without one, the fastest interface that is up. Null: no rate is known.
std::optional<HostLink> link_of(const HostFabric& fabric);

nlohmann::ordered_json to_json(const HostFabric& fabric);
HostFabric fabric_of(const nlohmann::ordered_json& json);

/// One line each: "eth0: up, 25 Gbit/s, MTU 9000", "mlx5_0 port 1: ACTIVE, InfiniBand, 400 Gbit/s",
/// "GPUDirect RDMA: nvidia_peermem".
std::vector<std::string> describe(const HostFabric& fabric);

}  // namespace trireme

#include "launcher/host/fabric.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The first line; empty if the file cannot be read. Some files of sysfs fail while an interface is down.
std::string first_line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::int64_t number_in(const fs::path& file, std::int64_t otherwise) {
  std::ifstream in(file);
  std::int64_t number = 0;
  return in >> number ? number : otherwise;
}

/// Names in a folder, sorted; none if there is no folder.
std::vector<std::string> sorted_entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<NetworkInterface> read_interfaces(const fs::path& net) {
  constexpr std::int64_t kLoopbackType = 772;  // ARPHRD_LOOPBACK of <linux/if_arp.h>
  std::vector<NetworkInterface> interfaces;
  for (const std::string& name : sorted_entries(net)) {
    if (!fs::is_directory(net / name) || number_in(net / name / "type", 1) == kLoopbackType) continue;
    NetworkInterface& one = interfaces.emplace_back();
    one.name = name;
    one.is_up = first_line_of(net / name / "operstate") == "up";
    one.mtu = number_in(net / name / "mtu", 0);
    const std::int64_t rate = number_in(net / name / "speed", -1);  // -1 of the kernel: unknown
    if (rate > 0) one.mbit_per_s = rate;
  }
  return interfaces;
}

std::vector<RdmaPort> read_rdma(const fs::path& devices) {
  std::vector<RdmaPort> ports;
  for (const std::string& device : sorted_entries(devices)) {
    for (const std::string& number : sorted_entries(devices / device / "ports")) {
      const fs::path folder = devices / device / "ports" / number;
      RdmaPort& port = ports.emplace_back();
      port.device = device;
      port.port = number;
      port.link = first_line_of(folder / "link_layer");
      const std::string state = first_line_of(folder / "state");  // "4: ACTIVE"
      port.state = state.substr(std::min(state.find(": "), state.size()));
      if (port.state.starts_with(": ")) port.state.erase(0, 2);
      std::ifstream rate(folder / "rate");  // "400 Gb/sec (4X NDR)"
      rate >> port.gbit_per_s;
    }
  }
  return ports;
}

}  // namespace

HostFabric read_fabric(const std::string& host, const fs::path& root) {
  HostFabric fabric;
  fabric.host = host;
  fabric.interfaces = read_interfaces(root / "sys/class/net");
  fabric.rdma = read_rdma(root / "sys/class/infiniband");
  for (const char* module : {"nvidia_peermem", "nv_peer_mem", "gdrdrv"}) {
    if (fs::exists(root / "sys/module" / module)) fabric.gpu_direct.emplace_back(module);
  }
  fabric.has_gpus = fs::exists(root / "sys/module/nvidia");
  return fabric;
}

std::optional<HostLink> link_of(const HostFabric& fabric) {
  constexpr double kGbitPerGB = 8;
  HostLink link;
  std::vector<std::string> names;
  for (const RdmaPort& port : fabric.rdma) {
    if (!port.is_active() || port.gbit_per_s <= 0) continue;
    names.push_back(port.device);
    link.gb_per_s += port.gbit_per_s / kGbitPerGB;
  }
  link.by = fmt::format("{}", fmt::join(names, ", "));
  if (!names.empty()) return link;
  for (const NetworkInterface& one : fabric.interfaces) {
    const double rate = static_cast<double>(one.mbit_per_s.value_or(0)) / 1e3 / kGbitPerGB;
    if (!one.is_up || rate <= link.gb_per_s) continue;
    link.by = one.name;
    link.gb_per_s = rate;
  }
  return link.gb_per_s > 0 ? std::optional(link) : std::nullopt;
}

Json to_json(const HostFabric& fabric) {
  Json json = {{"host", fabric.host},
               {"interfaces", Json::array()},
               {"rdma", Json::array()},
               {"gpu_direct", fabric.gpu_direct},
               {"gpus", fabric.has_gpus}};
  for (const NetworkInterface& one : fabric.interfaces) {
    json["interfaces"].push_back({{"name", one.name},
                                  {"up", one.is_up},
                                  {"mbit_per_s", one.mbit_per_s ? Json(*one.mbit_per_s) : Json(nullptr)},
                                  {"mtu", one.mtu}});
  }
  for (const RdmaPort& port : fabric.rdma) {
    json["rdma"].push_back({{"device", port.device},
                            {"port", port.port},
                            {"link", port.link},
                            {"state", port.state},
                            {"gbit_per_s", port.gbit_per_s}});
  }
  return json;
}

HostFabric fabric_of(const Json& json) {
  HostFabric fabric;
  fabric.host = json.at("host");
  fabric.gpu_direct = json.at("gpu_direct").get<std::vector<std::string>>();
  fabric.has_gpus = json.at("gpus");
  for (const Json& one : json.at("interfaces")) {
    NetworkInterface& into = fabric.interfaces.emplace_back();
    into.name = one.at("name");
    into.is_up = one.at("up");
    if (!one.at("mbit_per_s").is_null()) into.mbit_per_s = one.at("mbit_per_s").get<std::int64_t>();
    into.mtu = one.at("mtu");
  }
  for (const Json& one : json.at("rdma")) {
    RdmaPort& into = fabric.rdma.emplace_back();
    into.device = one.at("device");
    into.port = one.at("port");
    into.link = one.at("link");
    into.state = one.at("state");
    into.gbit_per_s = one.at("gbit_per_s");
  }
  return fabric;
}

std::vector<std::string> describe(const HostFabric& fabric) {
  std::vector<std::string> lines;
  for (const NetworkInterface& one : fabric.interfaces) {
    const std::string rate = one.mbit_per_s
                                 ? fmt::format("{:g} Gbit/s", static_cast<double>(*one.mbit_per_s) / 1e3)
                                 : std::string("rate unknown");
    lines.push_back(fmt::format("{}: {}, {}, MTU {}", one.name, one.is_up ? "up" : "down", rate, one.mtu));
  }
  for (const RdmaPort& port : fabric.rdma) {
    lines.push_back(fmt::format("{} port {}: {}, {}, {:g} Gbit/s", port.device, port.port, port.state,
                                port.link, port.gbit_per_s));
  }
  if (fabric.rdma.empty()) lines.emplace_back("no RDMA adapter: exchanges between hosts use TCP");
  if (fabric.has_gpus && !fabric.rdma.empty()) {
    lines.push_back(
        fabric.gpu_direct.empty()
            ? "GPUDirect RDMA: no module nvidia_peermem is loaded; NCCL then needs DMA-BUF (Linux 5.12, "
              "open GPU modules), else copies pass through host memory"
            : fmt::format("GPUDirect RDMA: {}", fmt::join(fabric.gpu_direct, ", ")));
  }
  return lines;
}

}  // namespace trireme

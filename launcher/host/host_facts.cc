#include "launcher/host/host_facts.h"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/backend.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"

namespace trireme {
namespace {

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/// The linker's build id, from a segment of ELF notes; may be empty.
std::string build_id_of(const char* note, const char* end) {
  while (note + sizeof(ElfW(Nhdr)) <= end) {
    const auto* header = reinterpret_cast<const ElfW(Nhdr)*>(note);
    const char* name = note + sizeof(*header);
    const char* content = name + aligned(header->n_namesz);
    const bool is_id = header->n_type == NT_GNU_BUILD_ID &&
                       std::string_view(name, header->n_namesz) == std::string_view("GNU\0", 4);
    std::string text;
    for (std::size_t i = 0; is_id && i < header->n_descsz; ++i)
      text += fmt::format("{:02x}", static_cast<unsigned char>(content[i]));
    if (is_id) return text;
    note = content + aligned(header->n_descsz);
  }
  return "";
}

/// The build id of this program, the loader's first object.
std::string build_id() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          auto& text = *static_cast<std::string*>(result);
          if (segment.p_type != PT_NOTE || !text.empty()) continue;
          const char* begin = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          text = build_id_of(begin, begin + segment.p_memsz);
        }
        return 1;  // the others are libraries
      },
      &id);
  return id;
}

}  // namespace

HostFacts facts_of_this_host(std::optional<DeviceType> device) {
  // As a job with device "auto": GPUs if this build and the machine have them.
  const bool may_have_gpus =
      device.value_or(DeviceType::kCuda) == DeviceType::kCuda && in_this_build(DeviceType::kCuda);
  const Backend* gpus = may_have_gpus ? &backend_for(DeviceType::kCuda) : nullptr;
  const bool has_gpus =
      gpus != nullptr && gpus->examine_devices != nullptr && !gpus->examine_devices().devices.empty();
  HostFacts facts{.host = host_name(),
                  .arithmetic = arithmetic_of({has_gpus ? DeviceType::kCuda : DeviceType::kCpu, 0})};
  if (const std::string id = build_id(); !id.empty()) facts.arithmetic["build id"] = id;
  return facts;
}

std::string to_json(const HostFacts& facts) {
  return nlohmann::ordered_json{{"host", facts.host}, {"arithmetic", facts.arithmetic}}.dump();
}

std::optional<HostFacts> find_host_facts(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("host") || !json.contains("arithmetic")) continue;
    return HostFacts{.host = json["host"], .arithmetic = json["arithmetic"].get<BitFacts>()};
  }
  return std::nullopt;
}

std::string describe_other_bits(const BitFacts& one, const BitFacts& reference) {
  BitFacts names = one;
  names.insert(reference.begin(), reference.end());
  const auto value = [](const BitFacts& facts, const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("none") : found->second;
  };
  std::string text;
  for (const auto& [name, any] : names) {
    const std::string here = value(one, name), there = value(reference, name);
    if (here != there) text += fmt::format("{}{} {}, not {}", text.empty() ? "" : "; ", name, here, there);
  }
  return text;
}

}  // namespace trireme

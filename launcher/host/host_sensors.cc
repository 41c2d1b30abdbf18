#include "launcher/host/host_sensors.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace trireme {
namespace {

namespace fs = std::filesystem;

// proc(5): user nice system idle iowait irq softirq steal, in ticks; guests are in user and nice.
void read_cpu(HostReading& reading, const fs::path& proc) {
  std::ifstream file(proc / "stat");
  std::string word;
  if (!(file >> word) || word != "cpu") return;
  double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;
  if (!(file >> user >> nice >> system >> idle >> io_wait >> irq >> soft_irq >> steal)) return;
  const auto ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  reading.cpu_busy_s = (user + nice + system + irq + soft_irq + steal) / ticks_per_s;
  reading.cpu_idle_s = (idle + io_wait) / ticks_per_s;
}

void read_memory(HostReading& reading, const fs::path& proc) {
  constexpr std::int64_t kKibi = 1024;
  std::ifstream file(proc / "meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    if (!(words >> name >> kib)) continue;
    if (name == "MemTotal:") reading.memory_total_bytes = kib * kKibi;
    if (name == "MemAvailable:") reading.memory_available_bytes = kib * kKibi;
  }
  std::ifstream process(proc / "self/statm");
  std::int64_t size = 0, resident = 0;
  if (process >> size >> resident) reading.process_resident_bytes = resident * sysconf(_SC_PAGESIZE);
}

void read_disk(HostReading& reading, fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  const fs::space_info space = fs::space(folder, error);
  if (error) return;
  reading.disk_size_bytes = static_cast<std::int64_t>(space.capacity);
  reading.disk_free_bytes = static_cast<std::int64_t>(space.available);
}

}  // namespace

HostReading read_host(const fs::path& folder, const fs::path& proc) {
  HostReading reading;
  read_cpu(reading, proc);
  read_memory(reading, proc);
  read_disk(reading, folder);
  return reading;
}

}  // namespace trireme

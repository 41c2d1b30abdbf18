#include "launcher/train/rank_hosts.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/host/machine.h"
#include "launcher/train/agreement.h"
#include "runtime/base/atomic_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const fs::path& root) {
  return root / "attempts" / "rank_hosts.json";
}

}  // namespace

void note_rank_hosts(Communicator& comm, const fs::path& root) {
  const std::vector<std::string> hosts = comm.all_gather_strings(host_name());
  run_stage(comm, [&] {
    const fs::path file = file_of(root);
    if (comm.rank() == 0 && fs::exists(file.parent_path()))
      write_text_file(file, nlohmann::json(hosts).dump() + "\n");
  });
}

std::vector<std::string> read_rank_hosts(const fs::path& root) {
  std::ifstream file(file_of(root));
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> hosts;
  if (!json.is_array()) return hosts;
  for (const auto& host : json) hosts.push_back(host.is_string() ? host.get<std::string>() : "");
  return hosts;
}

void forget_rank_hosts(const fs::path& root) {
  std::error_code ignored;
  fs::remove(file_of(root), ignored);
}

}  // namespace trireme

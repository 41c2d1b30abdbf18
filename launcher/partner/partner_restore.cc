#include "launcher/partner/partner_restore.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/host/agreement.h"
#include "launcher/host/machine.h"
#include "launcher/partner/borrowed_tensor.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/safetensors_parts.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr int kRestoreTag = 1;  // used only by this module

}  // namespace

PartnerRestore::PartnerRestore(PartnerRing ring, const Refusal& refusal)
    : ring_(std::move(ring)), host_(ring_.hosts.at(static_cast<std::size_t>(ring_.comm->rank()))) {
  for (int host = 0; host < num_hosts(ring_.hosts); ++host)
    ranks_.push_back(ranks_of_host(ring_.hosts, host));
  const std::vector<std::string> names = ring_.comm->all_gather_strings(host_name());
  for (const std::vector<int>& ranks : ranks_)
    names_.push_back(names[static_cast<std::size_t>(ranks.front())]);
  run_stage(*ring_.comm, [this] { shards_ = ring_.folder.list(); });
  gather();
  refuse(refusal);
}

// The first rank of each host lists its shards. Rank 0's shard describes the checkpoint.
void PartnerRestore::gather() {
  SortedJson mine = SortedJson::array();
  for (const PartnerFolder::Shard& shard : shards_) {
    const ShardHeader& header = shard.header;
    mine.push_back({{"run", header.run},
                    {"save", header.save},
                    {"step", header.step},
                    {"rank", header.rank},
                    {"ranks", header.num_ranks},
                    {"bytes", shard.bytes},
                    {"content", header.content}});
    if (header.rank != 0) continue;
    for (const ShardHeader::File& file : header.files)
      mine.back()["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  const auto texts = ring_.comm->all_gather_strings(ring_.is_first_of_host() ? mine.dump() : "[]");
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (const SortedJson& shard : SortedJson::parse(texts[rank])) {
      Saved& saved = saved_[shard["save"].get<std::string>()];
      const auto of_rank = shard["rank"].get<std::size_t>(), num_ranks = shard["ranks"].get<std::size_t>();
      if (saved.holders.empty()) {
        saved.run = shard["run"].get<std::string>();
        saved.header.step = shard["step"].get<std::int64_t>();
        saved.header.num_ranks = static_cast<int>(num_ranks);
        saved.holders.resize(num_ranks);
        saved.bytes.resize(num_ranks);
      }
      if (of_rank >= saved.holders.size()) continue;  // its header contradicts the others
      saved.holders[of_rank].push_back(ring_.hosts[rank]);
      saved.bytes[of_rank] = shard["bytes"].get<std::int64_t>();
      if (of_rank != 0) continue;
      saved.header.content = shard["content"];
      saved.header.files.clear();
      for (const SortedJson& file : shard["files"])
        saved.header.files.push_back({file["name"].get<std::string>(), file["bytes"].get<std::uint64_t>()});
    }
  }
}

void PartnerRestore::refuse(const Refusal& refusal) {
  std::erase_if(saved_, [&](const auto& entry) {
    const Saved& saved = entry.second;
    // Without rank 0's shard its run is unknown, and it is incomplete anyway.
    if (saved.holders.front().empty()) return false;
    const std::string why = refusal(
        saved.run, {.folder = ring_.folder.path(),
                    .manifest = {.step = saved.header.step, .files = {}, .content = saved.header.content}});
    if (!why.empty() && ring_.comm->rank() == 0)
      log_warning(fmt::format("the checkpoint of step {} in the memory of {} is not used: {}",
                              saved.header.step, describe(saved), why));
    return !why.empty();
  });
}

bool PartnerRestore::is_whole(const Saved& saved) const {
  return std::ranges::none_of(saved.holders, [](const auto& hosts) { return hosts.empty(); });
}

std::string PartnerRestore::describe(const Saved& saved) const {
  std::vector<std::string> hosts;
  for (std::size_t host = 0; host < names_.size(); ++host) {
    const bool holds_any = std::ranges::any_of(saved.holders, [&](const std::vector<int>& of_rank) {
      return std::ranges::find(of_rank, static_cast<int>(host)) != of_rank.end();
    });
    if (holds_any) hosts.push_back(names_[host]);
  }
  return fmt::format("{} ({})", fmt::join(hosts, ", "), ring_.folder.path().filename().string());
}

int PartnerRestore::handler(int host, int shard) const {
  const std::vector<int>& ranks = ranks_.at(static_cast<std::size_t>(host));
  return ranks[static_cast<std::size_t>(shard) % ranks.size()];
}

const PartnerFolder::Shard* PartnerRestore::local(const std::string& save, int rank) const {
  const auto found = std::ranges::find_if(shards_, [&](const PartnerFolder::Shard& shard) {
    return shard.header.save == save && shard.header.rank == rank;
  });
  return found == shards_.end() ? nullptr : &*found;
}

// Each host verifies its shards, divided among its ranks.
void PartnerRestore::verify(const std::string& save) {
  Saved& saved = saved_.at(save);
  SortedJson damaged = SortedJson::array();
  for (int rank = 0; rank < saved.header.num_ranks; ++rank) {
    const PartnerFolder::Shard* shard = local(save, rank);
    if (shard == nullptr || handler(host_, rank) != ring_.comm->rank()) continue;
    try {
      ShardReader(shard->path).verify();
    } catch (const Error& error) {
      damaged.push_back({{"rank", rank}, {"what", error.what()}});
    }
  }
  const auto texts = ring_.comm->all_gather_strings(damaged.dump());
  for (std::size_t by = 0; by < texts.size(); ++by) {
    for (const SortedJson& one : SortedJson::parse(texts[by])) {
      const int host = ring_.hosts[by];
      std::erase(saved.holders[one["rank"].get<std::size_t>()], host);
      if (ring_.comm->rank() == 0)
        log_warning(fmt::format("memory of host {}: {}", names_[static_cast<std::size_t>(host)],
                                one["what"].get<std::string>()));
    }
  }
}

std::optional<PartnerRestore::Found> PartnerRestore::bring(std::int64_t least_step) {
  std::vector<std::string> saves;
  for (const auto& [save, saved] : saved_) {
    if (saved.header.step >= least_step && !saved.is_tried) saves.push_back(save);
  }
  std::ranges::stable_sort(saves, [this](const std::string& a, const std::string& b) {
    return saved_.at(a).header.step > saved_.at(b).header.step;
  });
  for (const std::string& save : saves) {
    saved_.at(save).is_tried = true;
    const bool has_all = is_whole(saved_.at(save));
    if (has_all) verify(save);
    const Saved& saved = saved_.at(save);
    if (!is_whole(saved)) {
      if (has_all)
        failure_ = fmt::format("the checkpoint of step {} in the memory of {} is damaged", saved.header.step,
                               describe(saved));
      const auto missing =
          std::ranges::count_if(saved.holders, [](const auto& hosts) { return hosts.empty(); });
      if (ring_.comm->rank() == 0)
        log_warning(fmt::format(
            "the checkpoint of step {} in the memory of {} is not whole: {} of its {} shards are missing or "
            "damaged",
            saved.header.step, describe(saved), missing, saved.holders.size()));
      continue;
    }
    run_stage(*ring_.comm, [&] {
      if (ring_.is_first_of_host()) ring_.folder.keep_only(save);
    });
    if (!assemble(save)) return std::nullopt;
    return Found{
        .checkpoint = {.folder = folder_,
                       .manifest = {.step = saved.header.step, .files = {}, .content = saved.header.content}},
        .run = saved.run,
        .description =
            fmt::format("the checkpoint of step {} in the memory of {}", saved.header.step, describe(saved))};
  }
  return std::nullopt;
}

std::int64_t PartnerRestore::newest_step() const {
  std::int64_t step = -1;
  for (const auto& [save, saved] : saved_) step = std::max(step, saved.header.step);
  return step;
}

bool PartnerRestore::assemble(const std::string& save) {
  const Saved& saved = saved_.at(save);
  const std::string mark = text_of_rank(*ring_.comm, 0, writer_mark());
  folder_ = ring_.folder.path() / fmt::format(".restored-step-{:06}-{}", saved.header.step, mark);
  try {
    run_stage(*ring_.comm, [&] { make_files(saved, save); });
    transfer(saved, save);
    return true;
  } catch (const AgreedError& error) {
    failure_ = fmt::format("the checkpoint of step {} in the memory of {} cannot be brought together: {}",
                           saved.header.step, describe(saved), one_line(error));
    if (ring_.comm->rank() == 0) log_warning(failure_ + "; " + ring_.folder.describe_room());
    clear();
    return false;
  }
}

void PartnerRestore::make_files(const Saved& saved, const std::string& save) {
  if (ring_.is_first_of_host()) {
    ring_.folder.prepare();
    fs::create_directory(folder_);
    for (const ShardHeader::File& file : saved.header.files) ReservedFile(folder_ / file.name, file.bytes);
  } else {
    ring_.folder.prepare();
  }
  std::int64_t most = 0;
  for (int shard = 0; shard < saved.header.num_ranks; ++shard) {
    if (handler(host_, shard) == ring_.comm->rank() && local_is_missing(saved, shard))
      most = std::max(most, saved.bytes[static_cast<std::size_t>(shard)]);
  }
  if (most == 0) return;
  received_ = std::make_shared<ReservedFile>(
      ring_.folder.path() / fmt::format(".received-{}-{}", ring_.comm->rank(), save),
      static_cast<std::uint64_t>(most));
}

bool PartnerRestore::local_is_missing(const Saved& saved, int shard) const {
  const std::vector<int>& hosts = saved.holders[static_cast<std::size_t>(shard)];
  return std::ranges::find(hosts, host_) == hosts.end();
}

void PartnerRestore::copy_shard(const Saved& saved, const ShardReader& shard) {
  std::map<std::uint64_t, FilePart> files;
  for (const ShardPiece& piece : shard.pieces()) {
    const auto [file, is_new] =
        files.try_emplace(piece.place.file, folder_ / saved.header.files.at(piece.place.file).name);
    file->second.write(piece.place.offset, {piece.data, static_cast<std::size_t>(piece.place.bytes)});
    copied_bytes_ += piece.place.bytes;
  }
}

// All ranks process shards and hosts in the same order, so that sends match receives. A failure on one side
// is reported only at the end, because the other side is waiting.
void PartnerRestore::transfer(const Saved& saved, const std::string& save) {
  Communicator& comm = *ring_.comm;
  std::exception_ptr failure;
  const auto attempt = [&](const std::function<void()>& work) {
    try {
      work();
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  };
  copied_bytes_ = 0;
  for (int shard = 0; shard < saved.header.num_ranks; ++shard) {
    const std::vector<int>& holders = saved.holders[static_cast<std::size_t>(shard)];
    const int source = handler(holders.front(), shard);
    const std::int64_t bytes = saved.bytes[static_cast<std::size_t>(shard)];
    for (int host = 0; host < static_cast<int>(ranks_.size()); ++host) {
      const int rank = handler(host, shard);
      if (std::ranges::find(holders, host) != holders.end()) {
        if (rank == comm.rank()) attempt([&] { copy_shard(saved, ShardReader(local(save, shard)->path)); });
        continue;
      }
      comm.open_channels({{.source = source, .destination = rank, .tag = kRestoreTag}});
      if (source == comm.rank()) {
        const auto file =
            std::make_shared<const MappedFile>(local(save, shard)->path, "shard of a checkpoint");
        comm.send(borrowed_tensor(file, file->bytes()), rank, kRestoreTag).wait();
      }
      if (rank != comm.rank()) continue;
      comm.recv(borrowed_tensor(received_, received_->bytes()).slice(0, {bytes}), source, kRestoreTag).wait();
      attempt([&] {
        const ShardReader received(received_->path(), static_cast<std::uint64_t>(bytes));
        received.verify();
        copy_shard(saved, received);
      });
    }
  }
  drop_received();
  const std::vector<std::uint64_t> copied = comm.all_gather_value(copied_bytes_);
  run_stage(comm, [&] {
    if (failure) std::rethrow_exception(failure);
    std::uint64_t whole = 0, here = 0;
    for (const ShardHeader::File& file : saved.header.files) whole += file.bytes;
    for (const int rank : ranks_[static_cast<std::size_t>(host_)])
      here += copied[static_cast<std::size_t>(rank)];
    TRIREME_CHECK(here == whole, "its shards have {} bytes, and its files {}", here, whole);
  });
}

void PartnerRestore::drop_received() noexcept {
  std::error_code ignored;
  if (received_) fs::remove(received_->path(), ignored);
  received_.reset();
}

void PartnerRestore::clear() noexcept {
  drop_received();
  std::error_code ignored;
  if (!folder_.empty() && ring_.is_first_of_host()) fs::remove_all(folder_, ignored);
  folder_.clear();
}

}  // namespace trireme

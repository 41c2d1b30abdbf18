#include "parallel/run/snapshot_files.h"

#include <algorithm>

#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/safetensors_parts.h"

namespace trireme {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 22;  // elements written between checks of `cancelled`

const StateSnapshot& snapshot_of(const Engine& engine) {
  TRIREME_CHECK(engine.snapshot() != nullptr, "EngineOptions::snapshots is false");
  return *engine.snapshot();
}

}  // namespace

SnapshotFiles::SnapshotFiles(const Engine& engine) : engine_(engine), snapshot_(snapshot_of(engine)) {
  for (SavedFile& file : saved_files(engine)) {
    files_.push_back({.name = std::string(file.name),
                      .tensors = file.tensors,
                      .layout = {file.name, entries_of(file.tensors), kFileMetadata}});
    for (const CheckpointTensor& tensor : file.tensors) {
      for (const SavedPart& part : tensor.parts) {
        if (!tensor.is_statistic()) pieces_.emplace_back(part.group, tensor.state);
      }
    }
  }
  std::ranges::sort(pieces_);
  pieces_.erase(std::ranges::unique(pieces_).begin(), pieces_.end());
}

std::vector<std::uint64_t> SnapshotFiles::hashes() const {
  std::vector<std::uint64_t> hashes(pieces_.size());
  const auto num_pieces = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(dynamic) num_threads(engine_.context().exec.num_threads)
  for (std::int64_t i = 0; i < num_pieces; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ByteHash hash;
    hash.update(std::as_bytes(snapshot_.piece(pieces_[at].first, pieces_[at].second).values));
    hashes[at] = hash.value();
  }
  return hashes;
}

void SnapshotFiles::note() {
  noted_ = hashes();
}

void SnapshotFiles::check_noted() const {
  if (noted_.empty()) return;
  const auto now = std::ranges::mismatch(noted_, hashes()).in1;
  if (now == noted_.end()) return;
  const auto group = static_cast<std::size_t>(pieces_[static_cast<std::size_t>(now - noted_.begin())].first);
  throw Error(
      ErrorCode::kRuntime,
      "silent corruption: the copy of '{}' from which a checkpoint was written is not what it was: a bit "
      "flipped in memory. The checkpoint is not kept: go on from the one before",
      engine_.layout().groups[group].name)
      .about({.rank = engine_.communicator().rank(), .block = engine_.layout().groups[group].name});
}

void SnapshotFiles::make(const std::filesystem::path& folder) const {
  for (const File& file : files_) make_safetensors(folder / file.name, file.layout);
}

template <class Visit>
void SnapshotFiles::for_each_run(const File& file, const Visit& visit) const {
  const std::span<const float> statistics = snapshot_.statistics();
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const CheckpointTensor& tensor = file.tensors[i];
    if (tensor.is_statistic()) {
      if (statistics.empty() || tensor.owned_at < 0) continue;
      visit(i, 0,
            statistics.subspan(static_cast<std::size_t>(tensor.owned_at),
                               static_cast<std::size_t>(tensor.shape.num_elems())));
      continue;
    }
    for (const SavedPart& part : tensor.parts) {
      const StateSnapshot::Piece piece = snapshot_.piece(part.group, tensor.state);
      const std::int64_t size = std::ssize(piece.values);
      const std::int64_t begin = std::max(part.offset, piece.first);
      const std::int64_t end = std::min(part.offset + part.shape.num_elems(), piece.first + size);
      for (std::int64_t at = begin; at < end;) {
        const SliceRun run = run_from(part.slice, part.shape, at - part.offset);
        const std::int64_t count = std::min(run.count, end - at);
        visit(i, run.first_of_whole,
              piece.values.subspan(static_cast<std::size_t>(at - piece.first),
                                   static_cast<std::size_t>(count)));
        at += count;
      }
    }
  }
}

void SnapshotFiles::write(const std::filesystem::path& folder, const std::atomic<bool>& cancelled) const {
  for (const File& file : files_) {
    SafetensorsPart out(folder / file.name, file.layout);
    for_each_run(file, [&](std::size_t tensor, std::int64_t first, std::span<const float> values) {
      while (!values.empty() && !cancelled) {
        const std::size_t count = std::min(values.size(), kPiece);
        out.write(tensor, first, values.first(count));
        first += static_cast<std::int64_t>(count);
        values = values.subspan(count);
      }
    });
    if (cancelled) return;
    out.sync();
  }
  check_noted();
}

std::vector<ShardHeader::File> SnapshotFiles::sizes() const {
  std::vector<ShardHeader::File> sizes;
  for (const File& file : files_) sizes.push_back({.name = file.name, .bytes = file.layout.size_bytes()});
  return sizes;
}

std::vector<ShardPiece> SnapshotFiles::pieces() const {
  std::vector<ShardPiece> pieces;
  const auto add = [&](std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
    pieces.push_back(
        {.place = {.file = file, .offset = offset, .bytes = bytes.size()}, .data = bytes.data()});
  };
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const SafetensorsLayout& layout = files_[f].layout;
    if (engine_.communicator().rank() == 0) add(f, 0, std::as_bytes(std::span(layout.head())));
    for_each_run(files_[f], [&](std::size_t tensor, std::int64_t first, std::span<const float> values) {
      add(f, layout.begin(tensor) + static_cast<std::uint64_t>(first) * sizeof(float), std::as_bytes(values));
    });
  }
  return pieces;
}

std::vector<CheckpointFile> SnapshotFiles::describe(const std::filesystem::path& folder) const {
  std::vector<CheckpointFile> files;
  for (const File& file : files_) files.push_back(describe_safetensors(folder / file.name));
  return files;
}

}  // namespace trireme

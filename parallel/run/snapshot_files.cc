#include "parallel/run/snapshot_files.h"

#include <algorithm>

#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/safetensors_parts.h"

namespace trireme {
namespace {

constexpr std::int64_t kPiece = 1 << 22;  // elements that are written before a look at `cancelled`

const StateSnapshot& snapshot_of(const Engine& engine) {
  TRIREME_CHECK(engine.snapshot() != nullptr, "EngineOptions::snapshots is false");
  return *engine.snapshot();
}

// What a rank has of a part of a tensor.
class PartWriter {
 public:
  PartWriter(SafetensorsPart& file, std::size_t tensor, const std::atomic<bool>& cancelled)
      : file_(file), tensor_(tensor), cancelled_(cancelled) {}

  void write(const SavedPart& part, const StateSnapshot::Piece& piece) const {
    const std::int64_t size = std::ssize(piece.values);
    const std::int64_t begin = std::max(part.offset, piece.first);
    const std::int64_t end = std::min(part.offset + part.shape.num_elems(), piece.first + size);
    for (std::int64_t at = begin; at < end && !cancelled_;) {
      const SliceRun run = run_from(part.slice, part.shape, at - part.offset);
      const std::int64_t count = std::min({run.count, end - at, kPiece});
      file_.write(
          tensor_, run.first_of_whole,
          piece.values.subspan(static_cast<std::size_t>(at - piece.first), static_cast<std::size_t>(count)));
      at += count;
    }
  }

 private:
  SafetensorsPart& file_;
  const std::size_t tensor_;
  const std::atomic<bool>& cancelled_;
};

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
      engine_.layout().groups[group].name);
}

void SnapshotFiles::make(const std::filesystem::path& folder) const {
  for (const File& file : files_) make_safetensors(folder / file.name, file.layout);
}

void SnapshotFiles::write(const std::filesystem::path& folder, const std::atomic<bool>& cancelled) const {
  const std::span<const float> statistics = snapshot_.statistics();
  for (const File& file : files_) {
    SafetensorsPart out(folder / file.name, file.layout);
    for (std::size_t i = 0; i < file.tensors.size(); ++i) {
      const CheckpointTensor& tensor = file.tensors[i];
      if (tensor.is_statistic()) {
        if (statistics.empty() || tensor.owned_at < 0) continue;
        out.write(i, 0,
                  statistics.subspan(static_cast<std::size_t>(tensor.owned_at),
                                     static_cast<std::size_t>(tensor.shape.num_elems())));
        continue;
      }
      for (const SavedPart& part : tensor.parts) {
        PartWriter(out, i, cancelled).write(part, snapshot_.piece(part.group, tensor.state));
      }
    }
    if (cancelled) return;
    out.sync();
  }
  check_noted();
}

std::vector<CheckpointFile> SnapshotFiles::describe(const std::filesystem::path& folder) const {
  std::vector<CheckpointFile> files;
  for (const File& file : files_) files.push_back(describe_safetensors(folder / file.name));
  return files;
}

}  // namespace trireme

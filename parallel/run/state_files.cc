#include "parallel/run/state_files.h"

#include <algorithm>

#include "parallel/run/checkpoint_state.h"
#include "parallel/watch/watchdog.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/safetensors_parts.h"

namespace trireme {
namespace {

constexpr std::int64_t kStagedElems = std::int64_t{1} << 20;  // copied from a device at once
constexpr std::size_t kWrittenBytes = std::size_t{1} << 24;   // written between checks of `cancelled`

}  // namespace

StateFiles::StateFiles(const Engine& engine)
    : engine_(engine), now_(engine.parameters(), engine.layout(), engine.statistics(), engine.groups()) {
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

const StateSnapshot& StateFiles::snapshot() const {
  TRIREME_CHECK(engine_.snapshot() != nullptr, "EngineOptions::snapshots is false");
  return *engine_.snapshot();
}

std::vector<std::uint64_t> StateFiles::hashes_of_snapshot() const {
  const StateSnapshot& copies = snapshot();
  std::vector<std::uint64_t> hashes(pieces_.size());
  const auto num_pieces = static_cast<std::int64_t>(pieces_.size());
#pragma omp parallel for schedule(dynamic) num_threads(engine_.context().exec.num_threads)
  for (std::int64_t i = 0; i < num_pieces; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ByteHash hash;
    hash.update(std::as_bytes(copies.piece(pieces_[at].first, pieces_[at].second).values));
    hashes[at] = hash.value();
  }
  return hashes;
}

void StateFiles::note() {
  noted_ = hashes_of_snapshot();
}

void StateFiles::check_noted() const {
  if (noted_.empty()) return;
  const auto now = std::ranges::mismatch(noted_, hashes_of_snapshot()).in1;
  if (now == noted_.end()) return;
  const auto group = static_cast<std::size_t>(pieces_[static_cast<std::size_t>(now - noted_.begin())].first);
  throw Error(
      ErrorCode::kRuntime,
      "silent corruption: the copy of '{}' from which a checkpoint was written is not what it was: a bit "
      "flipped in memory. The checkpoint is not kept: go on from the one before",
      engine_.layout().groups[group].name)
      .about({.rank = engine_.communicator().rank(), .block = engine_.layout().groups[group].name});
}

void StateFiles::make(const std::filesystem::path& folder) const {
  for (const File& file : files_) {
    std::error_code ignored;
    std::filesystem::remove(folder / file.name, ignored);
    make_safetensors(folder / file.name, file.layout);
  }
}

StateFiles::Source StateFiles::source_of(const CheckpointTensor& tensor, const SavedPart& part,
                                         State state) const {
  if (state == State::kSnapshot) {
    const auto [first, values] = tensor.is_statistic()
                                     ? StateSnapshot::Piece{.values = snapshot().statistics()}
                                     : snapshot().piece(part.group, tensor.state);
    return {.first = first, .count = std::ssize(values), .host = values};
  }
  const StatePiece piece =
      tensor.is_statistic() ? now_.statistics_piece() : now_.piece(part.group, tensor.state);
  Source source{.first = piece.first, .count = piece.count, .codes = piece.codes};
  if (!piece.values.defined()) return source;
  if (traits(piece.values.device().type).host_memory) {
    source.host = {static_cast<const float*>(piece.values.data()), static_cast<std::size_t>(piece.count)};
  } else {
    source.device = piece.values;
  }
  return source;
}

template <class Visit>
void StateFiles::for_each_piece(std::size_t file, State state, const Visit& visit) const {
  const Context& ctx = engine_.context();
  const SafetensorsLayout& layout = files_[file].layout;
  std::vector<float> staged;
  const auto on_host = [&](const Source& source, std::int64_t at, std::int64_t count) {
    if (!source.device.defined() && source.codes == nullptr)
      return source.host.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
    staged.resize(static_cast<std::size_t>(std::min(count, kStagedElems)));
    if (source.codes != nullptr) {
      source.codes->read(ctx, source.first + at, staged);
      return std::span<const float>(staged);
    }
    const Tensor stretch = source.device.slice(at, {std::ssize(staged)});
    ctx.backend->copy_to_host(ctx.exec, staged.data(), stretch);
    return std::span<const float>(staged);
  };
  for (std::size_t i = 0; i < files_[file].tensors.size(); ++i) {
    const CheckpointTensor& tensor = files_[file].tensors[i];
    if (tensor.is_statistic() && tensor.owned_at < 0) continue;
    for (const SavedPart& part : tensor.parts) {
      const Source source = source_of(tensor, part, state);
      const std::int64_t offset = tensor.is_statistic() ? tensor.owned_at : part.offset;
      const std::int64_t begin = std::max(offset, source.first);
      const std::int64_t end = std::min(offset + part.shape.num_elems(), source.first + source.count);
      for (std::int64_t at = begin; at < end;) {
        std::span<const float> values = on_host(source, at - source.first, end - at);
        while (!values.empty()) {
          const SliceRun run = run_from(part.slice, part.shape, at - offset);
          const auto bytes =
              std::as_bytes(values.first(static_cast<std::size_t>(std::min(run.count, std::ssize(values)))));
          visit(ShardPiece{.place = {.file = file,
                                     .offset = layout.begin(i) +
                                               static_cast<std::uint64_t>(run.first_of_whole) * sizeof(float),
                                     .bytes = bytes.size()},
                           .data = bytes.data()});
          values = values.subspan(bytes.size() / sizeof(float));
          at += static_cast<std::int64_t>(bytes.size() / sizeof(float));
        }
      }
    }
  }
}

void StateFiles::write(const std::filesystem::path& folder, State state,
                       const std::atomic<bool>& cancelled) const {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const std::filesystem::path path = folder / files_[f].name;
    // The watchdog names the file if the file system blocks the job. Other threads have no status.
    RankStatus* status = state == State::kNow ? engine_.communicator().status().get() : nullptr;
    const Watchdog::Scope watch(status, "the writing of " + path.string());
    FilePart out(path);
    for_each_piece(f, state, [&](const ShardPiece& piece) {
      for (std::uint64_t done = 0; done < piece.place.bytes && !cancelled; done += kWrittenBytes) {
        const std::size_t count = std::min<std::size_t>(kWrittenBytes, piece.place.bytes - done);
        out.write(piece.place.offset + done, {piece.data + done, count});
      }
    });
    if (cancelled) return;
    out.sync();
  }
  if (state == State::kSnapshot) check_noted();
}

std::vector<ShardHeader::File> StateFiles::sizes() const {
  std::vector<ShardHeader::File> sizes;
  for (const File& file : files_) sizes.push_back({.name = file.name, .bytes = file.layout.size_bytes()});
  return sizes;
}

std::vector<ShardPiece> StateFiles::pieces() const {
  std::vector<ShardPiece> pieces;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const auto head = std::as_bytes(std::span(files_[f].layout.head()));
    if (engine_.communicator().rank() == 0)
      pieces.push_back({.place = {.file = f, .offset = 0, .bytes = head.size()}, .data = head.data()});
    for_each_piece(f, State::kSnapshot, [&](const ShardPiece& piece) { pieces.push_back(piece); });
  }
  return pieces;
}

std::vector<std::uint64_t> StateFiles::hash(const std::filesystem::path& folder) const {
  const Communicator& comm = engine_.communicator();
  std::vector<std::uint64_t> hashes;
  for (const File& file : files_) {
    const auto of_file =
        hash_share(folder / file.name, file.layout, {.index = comm.rank(), .count = comm.size()});
    hashes.insert(hashes.end(), of_file.begin(), of_file.end());
  }
  return hashes;
}

std::vector<CheckpointFile> StateFiles::describe(std::span<const std::uint64_t> hashes) const {
  std::size_t num_hashes = 0;
  for (const File& file : files_) num_hashes += 1 + file.tensors.size();
  std::vector<std::uint64_t> sums(num_hashes);
  for (std::size_t i = 0; i < hashes.size(); ++i) sums[i % num_hashes] += hashes[i];
  std::vector<CheckpointFile> files;
  std::span<const std::uint64_t> left = sums;
  for (const File& file : files_) {
    files.push_back(describe_safetensors(file.name, file.layout, entries_of(file.tensors), left));
    left = left.subspan(1 + file.tensors.size());
  }
  return files;
}

}  // namespace trireme

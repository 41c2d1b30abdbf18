#include "launcher/partner/partner_copy.h"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/host/agreement.h"
#include "launcher/host/elapsed.h"
#include "launcher/host/machine.h"
#include "launcher/partner/borrowed_tensor.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/pending_folder.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kTag = 0;  // the communicator is used only here

Tensor tensor_of(std::shared_ptr<ReservedFile> file) {
  const std::span<std::byte> bytes = file->bytes();
  return borrowed_tensor(std::move(file), bytes);
}

std::vector<MessageChannel> channels_of(const HostMap& hosts) {
  std::vector<MessageChannel> channels;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) {
    const int to = partner_places(hosts, rank).sends_to;
    if (to >= 0) channels.push_back({.source = rank, .destination = to, .tag = kTag});
  }
  return channels;
}

}  // namespace

bool PartnerRing::is_first_of_host() const {
  const int rank = comm->rank();
  return ranks_of_host(hosts, hosts.at(static_cast<std::size_t>(rank))).front() == rank;
}

PartnerCopy::PartnerCopy(Engine& engine, PartnerRing ring, std::int64_t chunk_bytes)
    : engine_(engine),
      ring_(std::move(ring)),
      places_(partner_places(ring_.hosts, ring_.comm->rank())),
      chunk_bytes_(chunk_bytes),
      mark_(hash_of_text(text_of_rank(*ring_.comm, 0, unique_mark()))),
      files_(engine) {
  ring_.comm->open_channels(channels_of(ring_.hosts));
}

void PartnerCopy::prepare(const RunState& state, const std::optional<fs::path>& tokenizer_model) {
  if (engine_.verifier() != nullptr) files_.note();  // never copy unverified state
  header_.files = files_.sizes();
  std::vector<ShardPiece> pieces = files_.pieces();
  if (tokenizer_model && ring_.comm->rank() == 0) {
    tokenizer_ = read_checked_tokenizer(*tokenizer_model, state.data.tokenizer);
    pieces.push_back({.place = {.file = header_.files.size(), .offset = 0, .bytes = tokenizer_.size()},
                      .data = reinterpret_cast<const std::byte*>(tokenizer_.data())});
  }
  if (ring_.comm->rank() == 0) header_.content = to_content(state);
  // Only rank 0 knows the tokenizer's file; other shards contain no part of it.
  if (!tokenizer_.empty())
    header_.files.push_back(
        {.name = std::string(tokenizer_file(state.data.tokenizer.kind)), .bytes = tokenizer_.size()});
  writer_.emplace(header_, std::move(pieces));
}

void PartnerCopy::start(const RunState& state, const std::optional<fs::path>& tokenizer_model) {
  Communicator& comm = *ring_.comm;
  began_ = Clock::now();
  header_ = {.run = ring_.run,
             .save = fmt::format("{}-{}", mark_, ++num_saves_),
             .step = engine_.steps_done(),
             .rank = comm.rank(),
             .num_ranks = comm.size()};
  try {
    run_stage(comm, [&] { prepare(state, tokenizer_model); });
  } catch (const AgreedError&) {
    work_.fail(std::current_exception());
    give_up();
    return;
  }
  const auto sizes = comm.all_gather_value(static_cast<std::int64_t>(writer_->size_bytes()));
  num_chunks_ = next_chunk_ = 0;
  const auto count_chunks = [&](std::int64_t bytes) {
    num_chunks_ = std::max(num_chunks_, (bytes + chunk_bytes_ - 1) / chunk_bytes_);
  };
  if (places_.sends_to >= 0) count_chunks(sizes[static_cast<std::size_t>(comm.rank())]);
  for (const int rank : places_.receives_from) {
    Incoming& one = incoming_.emplace_back(
        Incoming{.header = header_, .bytes = sizes[static_cast<std::size_t>(rank)], .memory = {}});
    one.header.rank = rank;
    count_chunks(one.bytes);
  }
  work_.run(Progress::kWriting, Progress::kReady, [this] { write(); });
}

// Runs on the thread. Reserves all space first, so that a lack of space is detected before anything is sent.
void PartnerCopy::write() {
  const auto make = [&](const ShardHeader& header, std::uint64_t bytes) {
    return std::make_shared<ReservedFile>(ring_.folder.unfinished_file_of(header), bytes);
  };
  try {
    const auto own = make(header_, writer_->size_bytes());
    for (Incoming& one : incoming_)
      one.memory = tensor_of(make(one.header, static_cast<std::uint64_t>(one.bytes)));
    writer_->write(*own);
    own_ = tensor_of(own);
  } catch (const Error& error) {
    throw error.saying(
        fmt::format("host {}: {}; {}", host_name(), error.what(), ring_.folder.describe_room()));
  }
  files_.check_noted();
}

void PartnerCopy::send_next() {
  for (Work& work : posted_) work.wait();
  posted_.clear();
  if (next_chunk_ == num_chunks_) {
    work_.run(Progress::kChecking, Progress::kInPlace, [this] { put_in_place(); });
    return;
  }
  const std::int64_t first = next_chunk_++ * chunk_bytes_;
  const auto chunk = [&](const Tensor& memory) {
    return memory.slice(first, {std::min(chunk_bytes_, memory.num_elems() - first)});
  };
  for (const Incoming& one : incoming_) {
    if (first < one.bytes) posted_.push_back(ring_.comm->recv(chunk(one.memory), one.header.rank, kTag));
  }
  if (places_.sends_to >= 0 && first < own_.num_elems())
    posted_.push_back(ring_.comm->send(chunk(own_), places_.sends_to, kTag));
}

void PartnerCopy::put_in_place() {
  const auto name = [&](const ShardHeader& header) {
    rename_or_throw(ring_.folder.unfinished_file_of(header), ring_.folder.file_of(header));
  };
  for (const Incoming& one : incoming_) {
    const ShardReader shard(ring_.folder.unfinished_file_of(one.header));
    shard.verify();
    TRIREME_CHECK(shard.header().save == header_.save && shard.header().rank == one.header.rank,
                  "rank {} sent another shard than its own", one.header.rank);
  }
  for (const Incoming& one : incoming_) name(one.header);
  name(header_);
}

std::optional<PartnerCopy::Copied> PartnerCopy::advance(std::span<const Progress> ranks) {
  if (!is_active()) return std::nullopt;
  const auto all = [&](Progress wanted) {
    return std::ranges::all_of(ranks, [&](Progress one) { return one == wanted; });
  };
  if (std::ranges::find(ranks, Progress::kFailed) != ranks.end()) {
    give_up();
  } else if (all(Progress::kReady) || progress() == Progress::kSending) {
    work_.set(Progress::kSending);
    send_next();
  } else if (all(Progress::kInPlace)) {
    work_.run(Progress::kClearing, Progress::kCleared, [this] {
      if (ring_.is_first_of_host()) ring_.folder.keep_only(header_.save);
    });
  } else if (all(Progress::kCleared)) {
    work_.join();
    const Copied done = copied();
    clear();
    has_warned_ = false;
    return done;
  }
  return std::nullopt;
}

std::optional<PartnerCopy::Copied> PartnerCopy::finish() {
  while (is_active()) {
    work_.join();
    if (const auto done = advance(ring_.comm->all_gather_value(progress()))) return done;
  }
  return std::nullopt;
}

// Posted chunks are completed, because the other ranks have posted the matching ones.
void PartnerCopy::give_up() {
  for (Work& work : posted_) work.wait();
  posted_.clear();
  const std::int64_t step = header_.step;
  try {
    run_stage(*ring_.comm, [this] { work_.rethrow(); });
  } catch (const AgreedError& error) {
    if (ring_.comm->rank() == 0 && !has_warned_)
      log_warning(fmt::format(
          "checkpoint.partner: the checkpoint of step {} was not copied into the memory of hosts: {}. "
          "Training goes on; each checkpoint is tried again, without another warning",
          step, one_line(error)));
  }
  has_warned_ = true;
  // On one rank it may be complete already, which is useless without the others.
  std::error_code ignored;
  fs::remove(ring_.folder.file_of(header_), ignored);
  for (const Incoming& one : incoming_) fs::remove(ring_.folder.file_of(one.header), ignored);
  discard();
}

PartnerCopy::Copied PartnerCopy::copied() const {
  Copied done{.step = header_.step, .bytes = own_.num_elems(), .seconds = seconds_since(began_)};
  for (const Incoming& one : incoming_) done.bytes += one.bytes;
  return done;
}

void PartnerCopy::discard() noexcept {
  work_.join();
  if (!is_active()) return;
  posted_.clear();
  std::error_code ignored;
  fs::remove(ring_.folder.unfinished_file_of(header_), ignored);
  for (const Incoming& one : incoming_) fs::remove(ring_.folder.unfinished_file_of(one.header), ignored);
  clear();
}

void PartnerCopy::clear() {
  header_ = {.step = -1};
  tokenizer_.clear();
  writer_.reset();
  own_ = {};
  incoming_.clear();
  work_.reset();
}

}  // namespace trireme

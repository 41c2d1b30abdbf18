#include "parallel/comm/rank_board.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

namespace trireme {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint64_t process_namespace() {
  struct stat info = {};
  return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<std::uint64_t>(info.st_ino) : 0;
}

}  // namespace

int RankReading::visible_process() const {
  return process_namespace == trireme::process_namespace() ? process : 0;
}

std::size_t RankBoard::bytes(int size) {
  return sizeof(Header) + static_cast<std::size_t>(size) * sizeof(Line);
}

RankBoard::RankBoard(std::shared_ptr<void> memory, int size) : memory_(std::move(memory)), size_(size) {}

std::shared_ptr<RankBoard> RankBoard::in_process(int size) {
  const auto words = std::make_shared<std::vector<std::uint64_t>>(bytes(size) / sizeof(std::uint64_t) + 1);
  return std::make_shared<RankBoard>(std::shared_ptr<void>(words, words->data()), size);
}

// A line of zeros is all zero bytes: these atomics are plain numbers that need no constructor.
RankBoard::Line& RankBoard::line(int slot) const {
  return reinterpret_cast<Line*>(static_cast<std::byte*>(memory_.get()) + sizeof(Header))[slot];
}

RankBoard::Header& RankBoard::header() const {
  return *static_cast<Header*>(memory_.get());
}

bool RankBoard::claim_last_word() {
  return header().last_word_taken.exchange(1) == 0;
}

bool RankBoard::is_full() const {
  for (int slot = 0; slot < size_; ++slot) {
    if (line(slot).process.load(std::memory_order_acquire) == 0) return false;
  }
  return true;
}

bool RankBoard::all_finished() const {
  for (int slot = 0; slot < size_; ++slot) {
    if (line(slot).finished.load(kRelaxed) == 0 && line(slot).ended.load(kRelaxed) == 0) return false;
  }
  return true;
}

RankReading RankBoard::read(int slot) const {
  const Line& line = this->line(slot);
  RankReading reading;
  std::array<char, kTextBytes> text = {};
  // A rank that stopped while writing leaves a mixed text, which is better than none.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::uint32_t before = line.version.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < line.text.size(); ++i) {
      const std::uint64_t word = line.text[i].load(std::memory_order_acquire);
      std::memcpy(text.data() + i * sizeof(word), &word, sizeof(word));
    }
    if (before % 2 == 0 && before == line.version.load(kRelaxed)) break;
  }
  reading.text.assign(text.data(), strnlen(text.data(), text.size()));
  reading.process = line.process.load(std::memory_order_acquire);
  reading.rank = line.rank.load(kRelaxed);
  reading.process_namespace = line.process_namespace.load(kRelaxed);
  reading.busy = line.busy.load(kRelaxed) != 0;
  reading.waits = line.waits.load(kRelaxed) != 0;
  reading.waits_for = line.waits_for.load(kRelaxed);
  reading.finished = line.finished.load(kRelaxed) != 0;
  reading.ended = line.ended.load(kRelaxed) != 0;
  reading.for_s = static_cast<double>(now_ns() - line.since_ns.load(kRelaxed)) * 1e-9;
  return reading;
}

RankStatus::RankStatus(std::shared_ptr<RankBoard> board, int slot, int rank)
    : board_(std::move(board)), slot_(slot), line_(board_->line(slot)) {
  line_.rank.store(rank, kRelaxed);
  line_.process_namespace.store(process_namespace(), kRelaxed);
  line_.waits_for.store(-1, kRelaxed);
  touch();
  line_.process.store(getpid(), std::memory_order_release);  // from now on readers use the line
}

void RankStatus::touch() {
  line_.since_ns.store(now_ns(), kRelaxed);
}

void RankStatus::begin(std::string_view text) {
  const std::uint32_t version = line_.version.load(kRelaxed);
  line_.version.store(version + 1, kRelaxed);
  const std::size_t length = std::min(text.size(), RankBoard::kTextBytes);
  for (std::size_t i = 0; i < line_.text.size() && i * 8 <= length; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i * 8, std::min<std::size_t>(8, length - i * 8));
    line_.text[i].store(word, std::memory_order_release);  // after the odd version
  }
  line_.version.store(version + 2, std::memory_order_release);
  line_.waits_for.store(-1, kRelaxed);
  line_.busy.store(1, kRelaxed);
  touch();
}

void RankStatus::end_action() {
  line_.busy.store(0, kRelaxed);
  touch();
}

void RankStatus::enter(std::string text) {
  begin(text);
  inside_.push_back(std::move(text));
}

void RankStatus::leave() {
  inside_.pop_back();
  if (inside_.empty()) {
    end_action();
  } else {
    begin(inside_.back());
  }
}

void RankStatus::begin_wait() {
  if (depth_++ > 0) return;
  line_.waits.store(1, kRelaxed);
  touch();
}

void RankStatus::end_wait() {
  if (--depth_ > 0) return;
  line_.waits.store(0, kRelaxed);
  touch();
}

void RankStatus::wait_for(int rank) {
  line_.waits_for.store(rank, kRelaxed);
}

void RankStatus::finish() noexcept {
  line_.finished.store(1, kRelaxed);
}

void RankStatus::end() noexcept {
  line_.ended.store(1, kRelaxed);
}

}  // namespace trireme

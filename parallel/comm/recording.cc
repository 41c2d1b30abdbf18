#include "parallel/comm/recording.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {

RecordingCommunicator::RecordingCommunicator(int rank, int size) : rank_(rank), size_(size) {
  TRIREME_CHECK(size >= 1 && rank >= 0 && rank < size, "there is no rank {} in a group of {}", rank, size);
}

void RecordingCommunicator::expect_split(std::vector<int> colors) {
  TRIREME_CHECK(colors.size() == static_cast<std::size_t>(size_), "expect_split got {} colors for {} ranks",
                colors.size(), size_);
  expected_splits_.push_back(std::move(colors));
}

std::shared_ptr<Communicator> RecordingCommunicator::split(int color) {
  TRIREME_CHECK(color >= 0, "split on rank {} of {}: color {} must not be negative", rank_, size_, color);
  if (size_ == 1 && expected_splits_.empty()) return std::make_shared<RecordingCommunicator>(0, 1);
  TRIREME_CHECK(
      !expected_splits_.empty(),
      "split on rank {} of {}: a recording communicator has no peers that could send their colors; call "
      "expect_split with the colors of all ranks first",
      rank_, size_);
  const std::vector<int> colors = std::move(expected_splits_.front());
  expected_splits_.pop_front();
  const auto self = colors.begin() + rank_;
  TRIREME_CHECK(*self == color, "split on rank {} of {}: expected color {}, got {}", rank_, size_, *self,
                color);
  return std::make_shared<RecordingCommunicator>(
      static_cast<int>(std::count(colors.begin(), self, color)),
      static_cast<int>(std::count(colors.begin(), colors.end(), color)));
}

Work RecordingCommunicator::record(CallKind kind, const Tensor& full, int peer, int tag) {
  const std::int64_t bytes = full.size_bytes();
  calls_.push_back({kind, full.dtype(), bytes, sent_bytes_of(kind, bytes, size_), peer, tag});
  return {};
}

std::vector<std::string> RecordingCommunicator::all_gather_strings_impl(const std::string& text) {
  calls_.push_back({.kind = CallKind::kAllGatherStrings});
  return std::vector<std::string>(static_cast<std::size_t>(size_), text);
}

void RecordingCommunicator::all_gather_values_impl(std::span<const std::byte> mine,
                                                   std::span<std::byte> all) {
  constexpr CallKind kKind = CallKind::kAllGatherValues;
  calls_.push_back(
      {.kind = kKind, .bytes = std::ssize(all), .sent_bytes = sent_bytes_of(kKind, std::ssize(all), size_)});
  for (auto to = all.begin(); to != all.end();) to = std::ranges::copy(mine, to).out;
}

}  // namespace trireme

#include "parallel/comm/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace trireme {
namespace {

constexpr int kLanes = 16;
constexpr std::int64_t kRowBytes = kLanes * sizeof(std::uint32_t);
// Small enough that a block's parameters give every thread several pieces.
constexpr std::int64_t kPieceBytes = 64 << 10;
// About 50 microseconds of one thread.
constexpr std::int64_t kPiecesForThreads = 16;
constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio

static_assert(kPieceBytes / kRowBytes < (1 << 16), "the sums of sums fit into 64 bits");

// Vector extension of GCC and Clang.
using Vector = std::uint64_t __attribute__((vector_size(32)));

/// Four lanes.
struct LaneSums {
  Vector sums = {}, sums_of_sums = {};

  [[gnu::always_inline]] void add(const Vector& words) {
    sums += words;
    sums_of_sums += sums;
  }
};

struct PieceSums {
  LaneSums lanes[kLanes / 4];
};

// The 32-bit words come in pairs; each half of a pair has its own lane.
[[gnu::always_inline]] inline void add_rows_by_vectors(const std::byte* rows, std::int64_t count,
                                                       PieceSums& piece) {
  constexpr std::uint64_t kLow = 0xffffffffu;
  auto [a, b, c, d] = piece.lanes;
  for (std::int64_t i = 0; i < count; ++i) {
    Vector first, second;
    std::memcpy(&first, rows + i * kRowBytes, sizeof first);
    std::memcpy(&second, rows + i * kRowBytes + sizeof first, sizeof second);
    a.add(first & kLow);
    b.add(first >> 32);
    c.add(second & kLow);
    d.add(second >> 32);
  }
  piece = {{a, b, c, d}};
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_rows_avx2(const std::byte* rows, std::int64_t count, PieceSums& piece) {
  add_rows_by_vectors(rows, count, piece);
}
#endif

void add_rows(const std::byte* rows, std::int64_t count, PieceSums& piece) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return add_rows_avx2(rows, count, piece);
#endif
  add_rows_by_vectors(rows, count, piece);
}

std::uint64_t checksum_of_piece(std::span<const std::byte> bytes) {
  PieceSums sums;
  const std::int64_t whole = std::ssize(bytes) / kRowBytes;
  add_rows(bytes.data(), whole, sums);
  if (const std::int64_t rest = std::ssize(bytes) % kRowBytes; rest > 0) {
    std::byte last[kRowBytes] = {};
    std::copy_n(bytes.data() + whole * kRowBytes, rest, last);
    add_rows(last, 1, sums);
  }
  std::uint64_t all = bytes.size();
  for (const LaneSums& of_four : sums.lanes) {
    for (int lane = 0; lane < 4; ++lane) {
      all = combine_checksums(all, of_four.sums[lane]);
      all = combine_checksums(all, of_four.sums_of_sums[lane]);
    }
  }
  return all;
}

}  // namespace

// A bijection in each argument, so that a change of only one of them is never lost.
std::uint64_t combine_checksums(std::uint64_t first, std::uint64_t second) {
  const std::uint64_t product = (std::rotl(first * kOdd, 32) ^ second) * kOdd;
  return product ^ (product >> 32);
}

std::uint64_t checksum(std::span<const std::byte> bytes, int num_threads) {
  const std::int64_t num_pieces = (std::ssize(bytes) + kPieceBytes - 1) / kPieceBytes;
  const auto of_piece = [&](std::int64_t piece) {
    const std::int64_t first = piece * kPieceBytes;
    return checksum_of_piece(
        bytes.subspan(static_cast<std::size_t>(first),
                      static_cast<std::size_t>(std::min(kPieceBytes, std::ssize(bytes) - first))));
  };
  std::uint64_t all = 0;
  if (num_threads == 1 || num_pieces < kPiecesForThreads) {
    for (std::int64_t piece = 0; piece < num_pieces; ++piece) all = combine_checksums(all, of_piece(piece));
    return all;
  }
  std::vector<std::uint64_t> pieces(static_cast<std::size_t>(num_pieces));
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (std::int64_t piece = 0; piece < num_pieces; ++piece)
    pieces[static_cast<std::size_t>(piece)] = of_piece(piece);
  for (const std::uint64_t piece : pieces) all = combine_checksums(all, piece);
  return all;
}

}  // namespace trireme

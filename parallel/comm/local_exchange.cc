#include "parallel/comm/local_exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <type_traits>

namespace trireme {
namespace {

std::byte* bytes_at(const Tensor& tensor, std::int64_t elem) {
  return static_cast<std::byte*>(tensor.data()) + elem * size_bytes(tensor.dtype());
}

// An all_gather may run in place; copying a range onto itself is skipped.
void copy_elems(const Tensor& dst, std::int64_t dst_elem, const Tensor& src, std::int64_t src_elem,
                std::int64_t num_elems) {
  std::byte* to = bytes_at(dst, dst_elem);
  const std::byte* from = bytes_at(src, src_elem);
  if (to != from && num_elems > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(num_elems * size_bytes(src.dtype())));
  }
}

// Signed overflow is undefined, and MPI's sums wrap around, so add as unsigned.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  }
}

// Combines elements [first, first + n) of every rank's `in` in rank order and passes blocks of the result to
// `write_block`. A block stays in cache, and is read before it is written, which makes the in-place case
// safe.
template <class T, class WriteBlock>
void reduce_range(std::span<const CallPart> parts, std::int64_t first, std::int64_t n, ReduceOp op,
                  WriteBlock write_block) {
  constexpr std::int64_t kBlock = 2048;
  std::array<T, kBlock> sum;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, n - begin);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const T* in = static_cast<const T*>(parts[r].in.data()) + first + begin;
      if (r == 0) {
        std::copy_n(in, count, sum.begin());
      } else if (op == ReduceOp::kSum) {
        for (std::int64_t i = 0; i < count; ++i) sum[i] = add(sum[i], in[i]);
      } else {
        for (std::int64_t i = 0; i < count; ++i) sum[i] = std::max(sum[i], in[i]);
      }
    }
    write_block(begin, sum.data(), count);
  }
}

template <class T>
void all_reduce(const CallSignature& call, std::span<const CallPart> parts) {
  const auto to_every_rank = [&](std::int64_t begin, const T* values, std::int64_t count) {
    for (const CallPart& part : parts) {
      std::copy_n(values, count, static_cast<T*>(part.in.data()) + begin);
    }
  };
  reduce_range<T>(parts, 0, call.in_elems, call.op, to_every_rank);
}

template <class T>
void reduce_scatter(const CallSignature& call, std::span<const CallPart> parts) {
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto to_owner = [&](std::int64_t begin, const T* values, std::int64_t count) {
      std::copy_n(values, count, static_cast<T*>(parts[r].out.data()) + begin);
    };
    const std::int64_t first = static_cast<std::int64_t>(r) * call.out_elems;
    reduce_range<T>(parts, first, call.out_elems, call.op, to_owner);
  }
}

template <class T>
void reduce(const CallSignature& call, std::span<const CallPart> parts) {
  if (call.kind == CallKind::kAllReduce) {
    all_reduce<T>(call, parts);
  } else {
    reduce_scatter<T>(call, parts);
  }
}

void reduce_any(const CallSignature& call, std::span<const CallPart> parts) {
  switch (call.dtype) {
    case DType::kFloat32:
      return reduce<float>(call, parts);
    case DType::kInt32:
      return reduce<std::int32_t>(call, parts);
    case DType::kUInt8:
      return reduce<std::uint8_t>(call, parts);
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kE4m3:
    case DType::kE5m2:
      assert(false && "Communicator has refused reductions of small floats");
  }
}

void all_gather(const CallSignature& call, std::span<const CallPart> parts) {
  for (const CallPart& to : parts) {
    for (std::size_t q = 0; q < parts.size(); ++q) {
      copy_elems(to.out, static_cast<std::int64_t>(q) * call.in_elems, parts[q].in, 0, call.in_elems);
    }
  }
}

void all_to_all(const CallSignature& call, std::span<const CallPart> parts) {
  const auto piece = call.in_elems / static_cast<std::int64_t>(parts.size());
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (std::size_t q = 0; q < parts.size(); ++q) {
      copy_elems(parts[p].out, static_cast<std::int64_t>(q) * piece, parts[q].in,
                 static_cast<std::int64_t>(p) * piece, piece);
    }
  }
}

}  // namespace

std::string CallSignature::to_string() const {
  const char* op_name = op == ReduceOp::kSum ? "sum" : "max";
  switch (kind) {
    case CallKind::kAllReduce:
      return fmt::format("all_reduce({} of {}, {} elements)", op_name, name(dtype), in_elems);
    case CallKind::kReduceScatter:
      return fmt::format("reduce_scatter({} of {}, {} -> {} elements)", op_name, name(dtype), in_elems,
                         out_elems);
    case CallKind::kBroadcast:
      return fmt::format("broadcast({}, {} elements, root {})", name(dtype), in_elems, root);
    case CallKind::kAllGather:
    case CallKind::kAllToAll:
      return fmt::format("{}({}, {} -> {} elements)", name(kind), name(dtype), in_elems, out_elems);
    case CallKind::kSend:
    case CallKind::kRecv:
      return fmt::format("{}({}, {} elements)", name(kind), name(dtype), in_elems);
    case CallKind::kAllGatherValues:
      return fmt::format("{}({} -> {} bytes)", name(kind), in_elems, out_elems);
    case CallKind::kBarrier:
    case CallKind::kAllGatherStrings:
    case CallKind::kSplit:
      break;
  }
  return std::string(name(kind));
}

void exchange_tensors(const CallSignature& signature, std::span<const CallPart> parts) {
  switch (signature.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      return reduce_any(signature, parts);
    case CallKind::kAllGather:
      return all_gather(signature, parts);
    case CallKind::kAllToAll:
      return all_to_all(signature, parts);
    case CallKind::kBroadcast:
      for (const CallPart& to : parts) {
        copy_elems(to.in, 0, parts[static_cast<std::size_t>(signature.root)].in, 0, signature.in_elems);
      }
      return;
    case CallKind::kSend:
    case CallKind::kRecv:
      return copy_elems(parts[1].in, 0, parts[0].in, 0, signature.in_elems);
    case CallKind::kBarrier:
    case CallKind::kAllGatherStrings:
    case CallKind::kAllGatherValues:
    case CallKind::kSplit:
      return;
  }
}

}  // namespace trireme

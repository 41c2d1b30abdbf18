#include "runtime/tensor_axis.h"

#include "runtime/base/error.h"

namespace trireme {

Shape shard_shape(const Shape& stream, int ranks) {
  TRIREME_CHECK(stream.rank() == 3,
                "a tensor of shape {} cannot be sharded by sequence; it must be [B, T, C]",
                stream.to_string());
  TRIREME_CHECK(
      stream.dim(1) % ranks == 0,
      "{} tensor ranks cannot share a sequence of {} tokens equally: use a length that is a multiple "
      "of {}, or do not shard the sequence",
      ranks, stream.dim(1), ranks);
  return {stream.dim(0), stream.dim(1) / ranks, stream.dim(2)};
}

Shape stream_shape(const Shape& shard, int ranks) {
  TRIREME_CHECK(shard.rank() == 3, "a tensor of shape {} is not a sequence shard [B, T / t, C]",
                shard.to_string());
  return {shard.dim(0), shard.dim(1) * ranks, shard.dim(2)};
}

}  // namespace trireme

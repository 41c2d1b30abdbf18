// GPUs as ranks, over NCCL: one rank a card, its operations on a stream beside the compute stream.
//
// [Note: streams of a communicator] An operation starts when the work that stood on the compute stream at the
// call is done, and runs beside what comes after. wait() of its Work does not hold up the host: it makes the
// compute stream wait. So buffers may be reused, on the compute stream, as soon as wait() has returned.
//
// [Note: failing operations] A watchdog asks NCCL for errors that come up while operations run, and looks for
// operations that take longer than the timeout. Either ends the job on every rank, through the host
// communicator, with a message that names the operation; the NCCL communicators are aborted, so that no
// kernel waits for ever.
#pragma once

#include <chrono>
#include <memory>

#include "parallel/comm/communicator.h"

namespace trireme {

/// A rank among those of its machine, and the cards that the machine shows it.
struct RankPlacement {
  int local_rank = 0, num_local_ranks = 1;
  int num_gpus = 0;
};

/// The card of a rank: of its number. Throws Error(kUnsupported) when the machine has fewer cards than ranks.
Device gpu_of_rank(const RankPlacement& placement);

/// A communicator of device memory with the ranks of `host`, whose strings set it up and whose barrier and
/// abort it uses. `device` is this rank's card. Collective over `host`.
///
/// Differs from communicator.h in one point: messages between two ranks are matched in order, whatever their
/// tags. They are handed to NCCL together when one of them is waited for.
///
/// Throws Error(kUnsupported) in a build without NCCL, Error(kCommunication) when the ranks cannot reach each
/// other.
std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, Device device,
                                                     std::chrono::seconds timeout = std::chrono::minutes(10));

/// "2.28.9", or empty in a build without NCCL.
std::string nccl_version();

}  // namespace trireme

// GPUs as ranks, over NCCL: one rank a card, its operations on streams beside the compute stream.
//
// [Note: streams of a communicator] An operation starts when the work that stood on the compute stream at the
// call is done, and runs beside what comes after. wait() of its Work does not hold up the host: it makes the
// compute stream wait. So buffers may be reused, on the compute stream, as soon as wait() has returned.
//
// [Note: channels over NCCL] Operations of one stream follow each other, and a message ends only when both
// sides have come to it: a receive that is posted ahead holds up everything behind it. So each channel has a
// stream and an NCCL communicator of two ranks of its own (one communicator plays its operations one by one,
// on whatever streams). Then a message waits for those before it on its channel alone, as communicator.h
// says, and plans are proved on these terms ([Note: channels of a plan] in validate.h).
//
// Kernels that wait for a peer occupy the card. That is safe where what they wait for can still run:
// - A channel's kernels have at most kChannelBlocks blocks, one of them runs at a time, and a rank has four
// channels
//   (from and to the stage before, from and to the one after) and two for each stage that it shares
//   parameters with. Together with the collectives' blocks, some 32 for each communicator in use, they
//   leave most of the card to kernels that compute, which end on their own.
// - Streams that share a hardware queue hold each other up. There are 8, and a pipeline has more
//   streams, unless CUDA_DEVICE_MAX_CONNECTIONS says otherwise: set it to 32, the most, before the first
//   CUDA call.
// - A kernel that is loaded when it is first launched may make the card finish its work before: set
//   CUDA_MODULE_LOADING=EAGER. What else may, an engine does before the first receive is posted, or not at
//   all: see [Note: dry runs] in parallel/run/dry_run.h.
// The launcher sets both (launcher/host/env.h); programs of your own have to.
//
// NCCL connects ranks at their first call of a kind, and lets their hosts wait for each other then. Channels
// are connected when they are opened. For collectives that may be in a step: all ranks of the group come
// to it, as the validator lets all of them wait there.
//
// [Note: failing operations] A watchdog asks NCCL for errors that come up while operations run, and looks for
// operations that take longer than the timeout. Either ends the job on every rank, through the host
// communicator, with a message that names the operation; the NCCL communicators are aborted, so that no
// kernel waits for ever. No call to NCCL waits for a peer, and setting up has the same limit: see [Note:
// owner of an ncclComm_t] in nccl_job.h.
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
/// open_channels costs an NCCL communicator for each channel that starts or ends at this rank. See [Note:
/// channels over NCCL] for what it wants of the environment.
///
/// Throws Error(kUnsupported) in a build without NCCL, Error(kCommunication) when the ranks cannot reach each
/// other.
std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, Device device,
                                                     std::chrono::seconds timeout = std::chrono::minutes(10));

/// "2.28.9", or empty in a build without NCCL.
std::string nccl_version();

}  // namespace trireme

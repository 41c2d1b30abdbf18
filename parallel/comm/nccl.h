// GPUs as ranks, over NCCL: one rank per card, with operations on streams beside the compute stream.
//
// [Note: streams of a communicator] An operation starts after the work enqueued on the compute stream before
// the call, and runs in parallel with later work. wait() of its Work does not block the host: it makes the
// compute stream wait. So buffers may be reused, on the compute stream, once wait() has returned.
//
// [Note: channels over NCCL] Operations on one stream run in order, and a message ends only when both sides
// have reached it: a receive posted ahead blocks everything behind it. So each channel has its own stream and
// its own NCCL communicator of two ranks (one communicator runs its operations in order, on any streams).
// Then a message waits only for earlier messages on its channel, as communicator.h specifies and as
// validation assumes ([Note: channels of a plan] in validate.h).
//
// Kernels that wait for a peer occupy the card. That is safe if the work they wait for can still run:
// - A channel's kernels have at most kChannelBlocks blocks, and one of them runs at a time. A rank has four
//   channels (from and to the stage before, from and to the one after) and two for each stage that it shares
//   parameters with. Together with the collectives' blocks, about 32 for each communicator in use, they leave
//   most of the card to kernels that compute, which end on their own.
// - Streams that share a hardware queue block each other. There are 8 queues by default, and a pipeline has
//   more streams: set CUDA_DEVICE_MAX_CONNECTIONS to 32, the maximum, before the first CUDA call.
// - Loading a kernel at its first launch may make the card finish its work first: set
//   CUDA_MODULE_LOADING=EAGER. An engine makes other calls with that effect before it posts the first
//   receive, or never: see [Note: dry runs] in parallel/run/dry_run.h.
// The launcher sets both variables (launcher/host/env.h). Other programs must set them.
//
// NCCL connects ranks at their first call of a kind, and blocks their hosts until all have joined. Channels
// are connected when opened. For collectives the first call may be inside a step: all ranks of the group
// reach it, as the validator allows all of them to wait there.
//
// [Note: failing operations] A watchdog polls NCCL for errors of running operations, and checks for
// operations that exceed the timeout. Either ends the job on every rank, through the host communicator, with
// a message that names the operation. The NCCL communicators are aborted, so that no kernel waits for ever.
// No call to NCCL waits for a peer, and setting up has the same limit: see [Note: owner of an ncclComm_t] in
// nccl_job.h.
#pragma once

#include <chrono>
#include <memory>

#include "parallel/comm/communicator.h"

namespace trireme {

/// The rank's number among the ranks of its machine, and the number of visible cards.
struct RankPlacement {
  int local_rank = 0, num_local_ranks = 1;
  int num_gpus = 0;
  bool may_share = false;  // a card by several ranks

  bool shares() const { return may_share && num_gpus > 0 && num_local_ranks > num_gpus; }
  /// The most ranks on one card.
  int ranks_per_gpu() const { return shares() ? (num_local_ranks + num_gpus - 1) / num_gpus : 1; }
};

/// The card with the rank's local number, modulo the number of cards if ranks share them. Throws
/// Error(kUnsupported) if the machine has fewer cards than ranks, which may not share. NCCL rejects two ranks
/// of one host on one card, so ranks that share need the environment of
/// prepare_environment_for_shared_gpus() (launcher/host/env.h).
Device gpu_of_rank(const RankPlacement& placement);

/// A communicator for device memory with the ranks of `host`. It uses all_gather_strings, barrier and abort
/// of `host`. `device` is this rank's card. Collective over `host`.
///
/// open_channels creates an NCCL communicator for each channel that starts or ends at this rank. See [Note:
/// channels over NCCL] for the environment variables that it needs.
///
/// Throws Error(kUnsupported) in a build without NCCL, Error(kCommunication) if the ranks cannot connect.
std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, Device device,
                                                     std::chrono::seconds timeout = std::chrono::minutes(10));

/// "2.28.9", or empty in a build without NCCL.
std::string nccl_version();

}  // namespace trireme

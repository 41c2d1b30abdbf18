// checkpoint.partner at the start of a run: which run owns the copies, and whether the run resumes from one.
//
// [Note: whose copies] A run has an id, stored in `run_id` of its output folder and in its copies. It gets a
// new id when it leaves later copies behind: at a start from a named checkpoint, from step 0, or without the
// key. Copies with another id are refused with a warning, and removed when this run has its own copy. If the
// folder has no id, because it is new or the file system is gone, the run adopts copies and their id if
// output path, job ([model], [data], [train], [optimizer], [precision]), data and arithmetic are the same.
// Such copies have the bits that the run would compute again.
#pragma once

#include <memory>

#include "launcher/partner/partner_restore.h"

namespace trireme {

struct TrainingRun;

/// The state of checkpoint.partner in a run.
struct PartnerStart {
  PartnerRing ring;
  std::unique_ptr<PartnerRestore> restore;  // until the state is restored; null: copies are not used
  std::optional<Checkpoint> from;           // the copy that the run resumes from
  std::string description;                  // of that copy
  std::string data;                         // last part of the run's id: a hash of the data's content
  std::int64_t files_step = -1;             // newest checkpoint in the file system; -1: none
};

/// Collective; does nothing without the key. The output folder must be claimed. Throws AgreedError if a
/// host's folder cannot be written.
void open_partner(TrainingRun& run);
/// Chooses the newest copy of `least_step` or later; false if there is none. Collective.
bool resume_from_partner(TrainingRun& run, std::int64_t least_step);
/// Throws AgreedError if the run would start fresh although hosts have a copy that cannot be used.
void check_nothing_is_left_behind(const TrainingRun& run);
/// Writes the run's id to the output folder. Call after it was claimed and a checkpoint chosen. Collective.
void claim_partner_folder(TrainingRun& run);
/// Removes the assembled files, and unfinished files of dead ranks. Call when all ranks have the state.
void end_partner_start(TrainingRun& run);
/// Removes the copies of a finished run. Collective.
void remove_partner_copies(TrainingRun& run);
/// Describes the copies for rank 0's log.
std::string describe_partner(const TrainingRun& run);
/// For a run that resumes from a copy: warns that the file system has an older checkpoint.
void report_partner_resume(const TrainingRun& run);

}  // namespace trireme

// checkpoint.partner at the start of a run: whose copies are whose, and whether the run goes on from one.
//
// [Note: whose copies] A run has an id, in `run_id` of its output folder, and so have its copies. It gets a
// new one where it leaves later copies behind: at a start from a checkpoint that was named, from step 0 or
// without the key. Copies with another id are refused with a warning, and removed when this run has a copy of
// its own. Where the folder has no id, because it is new or the file system is gone, copies of a run with the
// same output path, the same job ([model], [data], [train], [optimizer], [precision]), data and arithmetic
// are taken over with their id: what they hold are the bits that the run would come to again.
#pragma once

#include <memory>

#include "launcher/partner/partner_restore.h"

namespace trireme {

struct TrainingRun;

/// What a run with checkpoint.partner knows of it.
struct PartnerStart {
  PartnerRing ring;
  std::unique_ptr<PartnerRestore> restore;  // until the state is restored; null: copies are not looked at
  std::optional<Checkpoint> from;           // that the run goes on from
  std::string description;                  // of it
  std::string data;                         // the last part of the run's id: a hash of what the data holds
  std::int64_t files_step = -1;             // of the newest checkpoint in the file system; -1: there is none
};

/// Collective; nothing without the key. The output folder is claimed. Throws AgreedError where a host's
/// folder cannot be written.
void open_partner(TrainingRun& run);
/// Chooses the newest copy of `least_step` or a later step; false where there is none. Collective.
bool resume_from_partner(TrainingRun& run, std::int64_t least_step);
/// Throws AgreedError where a run would begin anew although hosts have a copy, which cannot be used.
void check_nothing_is_left_behind(const TrainingRun& run);
/// Notes whose the output folder is, after it was claimed and a checkpoint chosen. Collective.
void claim_partner_folder(TrainingRun& run);
/// Removes what was brought together, and what ranks that died left unfinished. After all have the state.
void end_partner_start(TrainingRun& run);
/// Of a run that is done. Collective.
void remove_partner_copies(TrainingRun& run);
/// What rank 0's log says of the copies.
std::string describe_partner(const TrainingRun& run);
/// Of a run that goes on from one: warns that the file system has less.
void report_partner_resume(const TrainingRun& run);

}  // namespace trireme

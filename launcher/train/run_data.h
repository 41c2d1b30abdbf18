// The data of a run and the checkpoint that it begins with: compared, and where reading goes on.
#pragma once

namespace trireme {

struct TrainingRun;

/// Compares the job's data with the checkpoint that the run resumes from, or that model.init_from names, and
/// sets TrainingRun::record and first_sample. Collective. Throws AgreedError for data that is refused.
void meet_data(TrainingRun& run);

/// On rank 0, at the start of a run that resumes or has initial weights: what differs, and where reading goes
/// on.
void log_data(const TrainingRun& run);

}  // namespace trireme

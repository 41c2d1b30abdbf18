#include "launcher/train/partner_start.h"

#include <fmt/ranges.h>

#include <fstream>
#include <iterator>

#include "launcher/host/agreement.h"
#include "launcher/keys/config_difference.h"
#include "launcher/train/run_start.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Implements [Note: whose copies].
std::string refusal_of(const TrainingRun& run, const std::string& id, const std::string& of_run,
                       const Checkpoint& checkpoint) {
  if (!id.empty())
    return id == of_run ? "" : "it is of another run with this output folder, or this one began again before";
  if (!of_run.ends_with("." + run.partner->data)) return "the output folder is new, and the data is another";
  try {
    const RunState state = read_run_state(checkpoint);
    std::vector<std::string> changes = describe_changes(state.config, run.options.config);
    for (const std::string& fact : describe_changes(state.arithmetic, run.options.arithmetic))
      changes.push_back(fact);
    if (changes.empty()) return "";
    return fmt::format("the output folder is new, and the job is another: {}", fmt::join(changes, ", "));
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void open_partner(TrainingRun& run) {
  const CheckpointSection& section = run.options.config.checkpoint;
  if (!section.partner) return;
  const auto& host = run.options.host ? run.options.host : run.options.comm;
  run.partner = std::make_unique<PartnerStart>(PartnerStart{
      .ring = {.comm = host->split(0),
               .hosts = host->hosts(),
               .folder = PartnerFolder(section.partner_folder, run.options.out),
               .run = text_of_rank(*host, 0, run.is_first() ? read_line(run.out.run_id()) : "")},
      .restore = nullptr,
      .from = std::nullopt,
      .description = {},
      .data = text_of_rank(*host, 0, run.is_first() ? hash_of_text(run.data.fingerprint_text()) : "")});
  PartnerStart& partner = *run.partner;
  run_stage(*partner.ring.comm, [&] { partner.ring.folder.prepare(); });
  // Unfinished files of dead ranks take space.
  run_stage(*partner.ring.comm, [&] {
    if (partner.ring.is_first_of_host()) partner.ring.folder.clear_unfinished();
  });
  if (section.resume.kind != Resume::Kind::kAuto) return;
  partner.restore = std::make_unique<PartnerRestore>(
      partner.ring, [&run, id = partner.ring.run](const std::string& of_run, const Checkpoint& checkpoint) {
        return refusal_of(run, id, of_run, checkpoint);
      });
}

bool resume_from_partner(TrainingRun& run, std::int64_t least_step) {
  if (!run.partner || !run.partner->restore) return false;
  PartnerStart& partner = *run.partner;
  auto found = partner.restore->bring(least_step);
  if (!found) return false;
  const std::int64_t step = found->checkpoint.manifest.step;
  if (step > run.num_steps())
    throw AgreedError(ErrorCode::kInvalidInput,
                      fmt::format("{} is beyond train.steps = {}: raise it, or choose another --out",
                                  found->description, run.num_steps()));
  partner.from = std::move(found->checkpoint);
  partner.ring.run = found->run;
  partner.description = found->description;
  run.resume_folder = partner.from->folder;
  return true;
}

void check_nothing_is_left_behind(const TrainingRun& run) {
  const PartnerStart* partner = run.partner.get();
  if (partner == nullptr || !partner->restore || partner->restore->failure().empty()) return;
  throw AgreedError(ErrorCode::kInvalidInput,
                    fmt::format("{}, and {} has no checkpoint: mend that, or begin anew with "
                                "checkpoint.resume = \"never\"",
                                partner->restore->failure(), run.store.root().string()));
}

void claim_partner_folder(TrainingRun& run) {
  if (!run.partner) {
    // Copies of an earlier run do not belong to this one.
    run_stage(run.comm(), [&] {
      if (run.is_first() && fs::exists(run.out.run_id()))
        write_text_file(run.out.run_id(), unique_mark() + "\n");
    });
    return;
  }
  PartnerStart& partner = *run.partner;
  const std::string before = partner.ring.run;
  const bool leaves_later =
      !partner.restore || (!partner.from && partner.restore->newest_step() > partner.files_step);
  if (before.empty() || leaves_later)
    partner.ring.run = text_of_rank(*partner.ring.comm, 0, unique_mark()) + "." + partner.data;
  run_stage(*partner.ring.comm, [&] {
    if (run.is_first()) {
      write_text_file(run.out.run_id(), partner.ring.run + "\n");
    }
    if (!partner.ring.is_first_of_host()) return;
    if (!partner.restore) partner.ring.folder.keep_only("");
    if (!before.empty() && before != partner.ring.run) partner.ring.folder.remove_those_of(before);
  });
}

void end_partner_start(TrainingRun& run) {
  if (!run.partner) return;
  run.partner->restore.reset();
  if (run.partner->ring.is_first_of_host()) run.partner->ring.folder.clear_unfinished();
}

void remove_partner_copies(TrainingRun& run) {
  if (!run.partner) return;
  run.partner->ring.comm->barrier();  // rank 0 has seen the last checkpoint completed
  if (run.partner->ring.is_first_of_host()) run.partner->ring.folder.remove();
}

std::string describe_partner(const TrainingRun& run) {
  const PartnerRing& ring = run.partner->ring;
  const int hosts = num_hosts(ring.hosts);
  const std::string where = ring.folder.path().parent_path().parent_path().string();
  if (hosts == 1)
    return fmt::format(
        "checkpoint.partner: copies in {} of the only host: they outlive the loss of the file system, not of "
        "the "
        "host",
        where);
  return fmt::format(
      "checkpoint.partner: copies in {} of each of {} hosts, of its own ranks and of those of the "
      "host before",
      where, hosts);
}

void report_partner_resume(const TrainingRun& run) {
  const PartnerStart& partner = *run.partner;
  const std::string text = "checkpoint.partner: going on from " + partner.description;
  const std::string has =
      partner.files_step < 0
          ? "no whole checkpoint"
          : fmt::format("no later whole checkpoint than that of step {}", partner.files_step);
  log_warning(fmt::format("{}: {} has {}", text, run.store.root().string(), has));
}

}  // namespace trireme

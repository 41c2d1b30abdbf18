// The commands of the program, one `<name>_command.cc` each.
#pragma once

#include <functional>

#include "launcher/host/env.h"
#include "launcher/host/exit_code.h"

namespace CLI {
class App;
}

namespace trireme {

/// The selected command, run after the command line was parsed.
using Command = std::function<ExitCode(const LaunchEnvironment&)>;

// Each adds its subcommand with options to `app`, and sets `chosen` if the command line selects it.
void add_calibrate_command(CLI::App& app, Command& chosen);
void add_checkpoint_command(CLI::App& app, Command& chosen);
void add_data_command(CLI::App& app, Command& chosen);
/// Adds `trireme data chat` to `trireme data`.
void add_data_chat_command(CLI::App& data, Command& chosen);
void add_detect_command(CLI::App& app, Command& chosen);
void add_doctor_command(CLI::App& app, Command& chosen);
void add_eval_command(CLI::App& app, Command& chosen);
void add_export_command(CLI::App& app, Command& chosen);
void add_init_command(CLI::App& app, Command& chosen);
void add_plan_command(CLI::App& app, Command& chosen);
void add_predict_command(CLI::App& app, Command& chosen);
void add_run_command(CLI::App& app, Command& chosen);
void add_sample_command(CLI::App& app, Command& chosen);
void add_train_command(CLI::App& app, Command& chosen);

}  // namespace trireme

// The commands that show runs: `<name>_command.cc` each, as those of commands.h.
#pragma once

#include "launcher/commands/commands.h"

namespace trireme {

// Each adds its subcommand with options to `app`, and sets `chosen` when the command line names it.
void add_report_command(CLI::App& app, Command& chosen);
void add_top_command(CLI::App& app, Command& chosen);
void add_watch_command(CLI::App& app, Command& chosen);

}  // namespace trireme

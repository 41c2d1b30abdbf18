#include "launcher/commands/cli.h"
#include "launcher/host/env.h"

int main(int argc, char** argv) {
  trireme::restart_with_thread_settings(argv);
  return trireme::run_command_line(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
#include "etude/stablehlo/stablehlo.h"

#include <filesystem>
#include <string>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/files/atomic_file.h"
#include "etude/saved/source.h"
#include "etude/stablehlo/emit.h"
#include "etude/variables/init_scope.h"

namespace etude::stablehlo {

void save(const std::filesystem::path& file, const std::vector<saved::Entry>& entries,
          const SaveOptions& options, CallSite where) {
  etude::internal::located("stablehlo::save", where, [&] {
    etude::internal::check_options("stablehlo::save", options, where);
    const etude::internal::OutsideScope outside;
    const saved::internal::Source source =
        saved::internal::source_of(entries, {.format = "a module of StableHLO",
                                             .function = options.function,
                                             .graph = options.graph,
                                             .training = options.training,
                                             .sizes = options.sizes});
    const BottomScope at_once(eager_context());
    const etude::internal::NoDeviceScope nowhere;
    const std::string text = internal::module_text(source, options.weights_as_arguments);
    etude::internal::AtomicFile out(file);
    out.write(text);
    out.commit();
  });
}

void save(const std::filesystem::path& file, const saved::Bound& f, const SaveOptions& options,
          CallSite where) {
  const std::string name = saved::internal::entry_name(f.function.display);
  save(file, std::vector{saved::Entry(name, f)}, options, where);
}

void save(const std::filesystem::path& file, const saved::Function& f, const SaveOptions& options,
          CallSite where) {
  save(file, std::vector{saved::Entry(saved::internal::entry_name(f.name()), f)}, options, where);
}

void save(const std::filesystem::path& file, const saved::Program& program,
          const SaveOptions& options, CallSite where) {
  save(file, std::vector{saved::Entry("program", program)}, options, where);
}

}  // namespace etude::stablehlo

// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A data set of four IDX files in one directory, each gzip or plain.
#pragma once

#include <memory>
#include <string>

#include "datasets/catalog.h"
#include "datasets/dataset.h"

namespace ddpbench::data {

// The source for `entry` in `directory`/<name>/, or null when none of its files is there. Reads
// headers only. Throws ConfigError when some files are missing, damaged or do not fit together.
// Fewer samples than were published are fine (a subset); another image size is not.
std::unique_ptr<DatasetSource> open_idx_dataset(const CatalogEntry& entry,
                                                const std::string& directory);

}  // namespace ddpbench::data

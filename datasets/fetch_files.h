// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What fetch.h does, for any catalog entry; apart so that tests can bring small ones.
#pragma once

#include <string>
#include <vector>

#include "datasets/catalog.h"
#include "datasets/fetch.h"

namespace ddpbench::data {

void fetch_files(const CatalogEntry& entry, const FetchOptions& options);

std::vector<FileState> inspect_files(const CatalogEntry& entry, const std::string& directory);

}  // namespace ddpbench::data

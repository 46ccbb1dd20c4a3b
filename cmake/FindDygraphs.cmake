# Finds dygraphs 2 (https://dygraphs.com), the plotting library of the monitor's page: Dygraphs_SCRIPT and Dygraphs_STYLE. Debian and Ubuntu have it;
# elsewhere -DDYGRAPHS_FOLDER names the folder with its two files.
set(DYGRAPHS_FOLDER "" CACHE PATH "Folder with dygraph.min.js and dygraph.min.css")
find_file(Dygraphs_SCRIPT dygraph.min.js HINTS ${DYGRAPHS_FOLDER} PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH)
find_file(Dygraphs_STYLE dygraph.min.css HINTS ${DYGRAPHS_FOLDER} PATHS /usr/share/javascript/dygraphs NO_DEFAULT_PATH)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Dygraphs
  REQUIRED_VARS Dygraphs_SCRIPT Dygraphs_STYLE
  REASON_FAILURE_MESSAGE
    "accepted: the package libjs-dygraphs of Debian or Ubuntu, or -DDYGRAPHS_FOLDER=FOLDER with dygraph.min.js and dygraph.min.css of dygraphs 2, https://dygraphs.com")
mark_as_advanced(Dygraphs_SCRIPT Dygraphs_STYLE)

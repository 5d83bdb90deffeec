"""What pyproject.toml says the package needs with some extras, a requirement a line: ``requirements.py dev docs``."""

import re
import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras, waiting, found = project["optional-dependencies"], sys.argv[1:], list(project["dependencies"])
while waiting:
    for requirement in extras[waiting.pop()]:
        own = re.fullmatch(r"dualflow\[(.+)\]", requirement)  # extras of the package itself
        if own:
            waiting += own[1].split(",")
        else:
            found.append(requirement)
print("\n".join(dict.fromkeys(found)))

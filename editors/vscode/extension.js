// The extension: starts `weft dap`, lists the findings of a run beside the call stack and in the Problems panel, and
// shows the run's picture in a panel. Everything comes from the command `weft`; nothing is computed here.
"use strict";

const { execFile } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const vscode = require("vscode");

/** @typedef {"error" | "warning" | "note"} Severity */
/** @typedef {{ rank: number, call: string, file: string | null, line: number | null }} Site */
/** @typedef {Site & { file: string, line: number }} Place a site whose line is known */
/**
 * A finding, as `weft report --format json` and `weft/findings` tell it.
 * @typedef {{ kind: string, severity: Severity, certainty: string, message: string, sites: Site[], number?: number }} Finding
 */

/** @type {Record<Severity, vscode.DiagnosticSeverity>} */
const SEVERITY = {
  error: vscode.DiagnosticSeverity.Error,
  warning: vscode.DiagnosticSeverity.Warning,
  note: vscode.DiagnosticSeverity.Information,
};
/** @type {Record<Severity, string>} */
const ICON = { error: "error", warning: "warning", note: "info" };

/**
 * The folder that a session or a command means.
 * @param {vscode.DebugSession} [session]
 * @returns {string | undefined}
 */
function folderOf(session) {
  const folder = session?.workspaceFolder ?? vscode.workspace.workspaceFolders?.[0];
  return session?.configuration?.cwd ?? folder?.uri.fsPath;
}

/**
 * The command: the setting, or that of a virtual environment of the folder, or what the PATH has.
 * @param {string | undefined} folder
 * @returns {string}
 */
function weft(folder) {
  const set = vscode.workspace.getConfiguration("weft").get("command");
  const own = folder && path.join(folder, ".venv", "bin", "weft");
  return set || (own && fs.existsSync(own) ? own : "weft");
}

/**
 * The variables for a command: what lies beside it (python, mpiexec of its virtual environment) is found first.
 * @param {string} command
 */
function surroundings(command) {
  const own = path.isAbsolute(command) ? path.dirname(command) + path.delimiter : "";
  return { ...process.env, PATH: own + (process.env.PATH ?? "") };
}

/**
 * The findings of a run. Status 1 only says that there are some.
 * @param {string | undefined} folder
 * @param {string | undefined} run
 * @returns {Promise<Finding[]>}
 */
function report(folder, run) {
  return new Promise((resolve, reject) => {
    const words = ["report", ...(run ? [run] : []), "--format", "json"];
    execFile(
      weft(folder),
      words,
      { cwd: folder, env: surroundings(weft(folder)), maxBuffer: 1 << 28 },
      (error, out, err) => {
        try {
          resolve(JSON.parse(out).findings);
        } catch {
          reject(new Error(err.trim() || error?.message || "weft report says nothing"));
        }
      },
    );
  });
}

/**
 * The list of findings beside the call stack; an entry leads to its moment.
 * @implements {vscode.TreeDataProvider<Finding>}
 */
class Findings {
  constructor() {
    /** @type {vscode.EventEmitter<void>} */
    this.changed = new vscode.EventEmitter();
    this.onDidChangeTreeData = this.changed.event;
    this.problems = vscode.languages.createDiagnosticCollection("weft");
    /** @type {Finding[]} */
    this.rows = [];
  }

  /**
   * Take these, of a run made in a folder, as the findings.
   * @param {Finding[]} rows
   * @param {string | undefined} folder
   */
  show(rows, folder) {
    this.rows = rows;
    this.changed.fire();
    vscode.commands.executeCommand("setContext", "weft.hasFindings", rows.length > 0);
    /** @type {Map<string, vscode.Diagnostic[]>} */
    const byFile = new Map();
    for (const row of rows) {
      const places = row.sites.filter(isPlace);
      if (!places.length) continue;
      const problem = new vscode.Diagnostic(line(places[0]), row.message, SEVERITY[row.severity]);
      problem.source = "weft";
      problem.code = row.kind;
      problem.relatedInformation = places
        .slice(1, 8)
        .map(
          (site) =>
            new vscode.DiagnosticRelatedInformation(
              new vscode.Location(fileOf(site, folder), line(site)),
              `rank ${site.rank}: ${site.call}`,
            ),
        );
      const file = fileOf(places[0], folder).toString();
      byFile.set(file, [...(byFile.get(file) ?? []), problem]);
    }
    this.problems.clear();
    for (const [file, problems] of byFile) this.problems.set(vscode.Uri.parse(file), problems);
  }

  /** @param {Finding} [row] */
  getChildren(row) {
    return row ? [] : this.rows.map((one, index) => ({ ...one, number: one.number ?? index + 1 }));
  }

  /** @param {Finding} row */
  getTreeItem(row) {
    const item = new vscode.TreeItem(row.message);
    item.description = row.kind;
    item.tooltip = new vscode.MarkdownString(`**${row.kind}** (${row.certainty})\n\n`).appendText(row.message);
    item.iconPath = new vscode.ThemeIcon(ICON[row.severity]);
    item.contextValue = "finding";
    item.command = { command: "weft.goTo", title: "Go to This Finding", arguments: [row] };
    return item;
  }
}

/**
 * @param {Site} site
 * @returns {site is Place}
 */
function isPlace(site) {
  return Boolean(site.file && site.line);
}

/**
 * @param {Place} site
 * @param {string | undefined} folder
 */
function fileOf(site, folder) {
  return vscode.Uri.file(path.resolve(folder ?? "/", site.file));
}

/** @param {Place} site */
function line(site) {
  return new vscode.Range(site.line - 1, 0, site.line - 1, Number.MAX_SAFE_INTEGER);
}

/**
 * To a finding: in a session the ranks go there, without one its line is opened.
 * @param {Finding} row
 */
async function goTo(row) {
  const session = vscode.debug.activeDebugSession;
  if (session?.type === "weft") {
    await session.customRequest("weft/until", { where: `finding:${row.number}`, through: true });
    return;
  }
  const site = row.sites.find(isPlace);
  if (site) await vscode.window.showTextDocument(fileOf(site, folderOf()), { selection: line(site) });
}

/**
 * The picture of a run in a panel beside the source: the one file that `weft view --output` writes.
 * @param {vscode.DebugSession} [session]
 */
function view(session) {
  const folder = folderOf(session);
  const run = session?.configuration?.run;
  const home = fs.mkdtempSync(path.join(os.tmpdir(), "weft-"));
  const file = path.join(home, "run.html");
  const words = ["view", ...(run ? [run] : []), "--output", file];
  execFile(weft(folder), words, { cwd: folder, env: surroundings(weft(folder)) }, (error, _, said) => {
    if (error) {
      vscode.window.showErrorMessage(`weft view: ${said.trim() || error.message}`);
    } else {
      const shape = { enableScripts: true, retainContextWhenHidden: true };
      const panel = vscode.window.createWebviewPanel("weft.view", "Weft", vscode.ViewColumn.Beside, shape);
      panel.webview.html = fs.readFileSync(file, "utf8");
    }
    fs.rmSync(home, { recursive: true, force: true });
  });
}

/** @param {vscode.ExtensionContext} context */
function activate(context) {
  const findings = new Findings();
  /** @param {vscode.DebugSession} [session] */
  const read = async (session) => {
    const folder = folderOf(session);
    try {
      findings.show(await report(folder, session?.configuration?.run), folder);
    } catch (error) {
      vscode.window.showErrorMessage(`weft: ${error instanceof Error ? error.message : error}`);
    }
  };
  context.subscriptions.push(
    findings.problems,
    vscode.window.registerTreeDataProvider("weft.findings", findings),
    vscode.commands.registerCommand("weft.findings", () => read(vscode.debug.activeDebugSession)),
    vscode.commands.registerCommand("weft.goTo", goTo),
    vscode.commands.registerCommand("weft.view", () => view(vscode.debug.activeDebugSession)),
    vscode.commands.registerCommand("weft.until", async () => {
      const where = await vscode.window.showInputBox({
        prompt: "RANK:EVENT, FILE:LINE, FUNCTION, t=SECONDS or finding:N",
      });
      if (where) await vscode.debug.activeDebugSession?.customRequest("weft/until", { where });
    }),
    vscode.debug.registerDebugAdapterDescriptorFactory("weft", {
      createDebugAdapterDescriptor(session) {
        const folder = folderOf(session);
        const command = weft(folder);
        return new vscode.DebugAdapterExecutable(command, ["dap"], { cwd: folder, env: surroundings(command) });
      },
    }),
    vscode.debug.registerDebugConfigurationProvider("weft", {
      resolveDebugConfiguration(folder, given) {
        const made = given.type ? given : { type: "weft", request: "launch", name: "Weft: the newest run" };
        return { cwd: folder?.uri.fsPath, ...made };
      },
    }),
    vscode.debug.registerDebugAdapterTrackerFactory("weft", {
      createDebugAdapterTracker(session) {
        return {
          onError(error) {
            vscode.window.showErrorMessage(`weft dap: ${error.message}. The setting weft.command names the command.`);
          },
          onDidSendMessage(message) {
            // The run is there from here on, also where the session has recorded it.
            if (message.type !== "event" || message.event !== "initialized") return;
            session.customRequest("weft/findings").then(
              (told) => findings.show(told.findings, folderOf(session)),
              (error) => vscode.window.showErrorMessage(`weft: ${error.message}`),
            );
          },
        };
      },
    }),
  );
}

module.exports = { activate, deactivate() {} };

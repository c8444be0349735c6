// Checks infra/: the Bicep files, the names that connect them, and the form of the Dockerfiles. If "bicep" is on PATH, the real compiler and its linter
// check the Bicep files, and otherwise tree-sitter's grammar.
//   npm ci --legacy-peer-deps --ignore-scripts --prefix scripts/infra && node scripts/infra/check.mjs
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { validate } from 'dockerfile-utils'
import { Language, Parser } from 'web-tree-sitter'

const here = dirname(fileURLToPath(import.meta.url))
const infra = join(here, '..', '..', 'infra')
let failures = 0

function fail(where, why) {
  failures++
  console.error(`${where}: ${why}`)
}

await Parser.init()
const parser = new Parser()
parser.setLanguage(await Language.load(join(here, 'node_modules', 'tree-sitter-bicep', 'tree-sitter-bicep.wasm')))

const place = (file, node) => `infra/${file}:${node.startPosition.row + 1}`
const string = (node) => node.text.slice(1, -1)
const all = (node, ...types) => node.descendantsOfType(types)
const property = (object, name) =>
  object.namedChildren.find((p) => p.type === 'object_property' && p.namedChild(0).text === name)?.namedChild(1)
const keys = (object) => object.namedChildren.filter((p) => p.type === 'object_property').map((p) => p.namedChild(0).text)

// read parses a file, and records its declarations.
function read(name) {
  const root = parser.parse(readFileSync(join(infra, name), 'utf8')).rootNode
  const file = { name, root, params: new Map(), modules: new Map(), outputs: new Set(), types: new Map(), exported: new Set(), names: new Set() }
  for (const bad of root.hasError ? all(root, 'ERROR') : []) fail(place(name, bad), `not Bicep: ${bad.text}`)
  if (root.hasError) fail(`infra/${name}`, 'does not parse')
  root.namedChildren.forEach((node, i) => {
    if (!node.type.endsWith('_declaration')) return
    const [id, second, third] = node.namedChildren
    if (node.type === 'output_declaration') {
      file.outputs.add(id.text)
      return
    }
    file.names.add(id.text)
    if (node.type === 'parameter_declaration') file.params.set(id.text, { type: second, required: !third })
    if (node.type === 'module_declaration') {
      const body = third.type === 'for_statement' ? third.childForFieldName('body') : third
      file.modules.set(id.text, { node, file: string(second), body })
    }
    if (node.type === 'type_declaration') {
      file.types.set(id.text, second)
      if (root.namedChild(i - 1)?.text.includes('@export()')) file.exported.add(id.text)
    }
  })
  for (const node of all(root, 'import_functionality')) {
    for (const id of node.namedChildren.filter((n) => n.type === 'identifier')) file.names.add(id.text)
  }
  for (const node of all(root, 'resource_declaration')) file.names.add(node.namedChild(0).text) // including nested resources
  for (const node of all(root, 'for_statement')) file.names.add(node.childForFieldName('initializer').text)
  for (const node of all(root, 'lambda_expression')) {
    for (const id of all(node.namedChild(0), 'identifier')) file.names.add(id.text)
    if (node.namedChild(0).type === 'identifier') file.names.add(node.namedChild(0).text)
  }
  return file
}

const files = new Map(readdirSync(infra).filter((n) => n.endsWith('.bicep')).map((n) => [n, read(n)]))

for (const file of files.values()) {
  for (const node of all(file.root, 'import_functionality')) {
    const from = files.get(string(all(node, 'string')[0]))
    for (const id of node.namedChildren.filter((n) => n.type === 'identifier')) {
      if (!from?.exported.has(id.text)) fail(place(file.name, node), `${id.text} is not exported there`)
    }
  }
  for (const [name, module] of file.modules) {
    const callee = files.get(module.file)
    if (!callee) {
      fail(place(file.name, module.node), `there is no ${module.file}`)
      continue
    }
    const given = property(module.body, 'params')
    for (const key of keys(given)) {
      const param = callee.params.get(key)
      if (!param) {
        fail(place(file.name, module.node), `${module.file} has no parameter ${key}`)
        continue
      }
      const words = all(param.type, 'string').map(string) // the values of a union
      for (const s of words.length ? all(property(given, key), 'string') : []) {
        if (!words.includes(string(s))) fail(place(file.name, s), `${key} of ${module.file} may not be ${s.text}`)
      }
    }
    for (const [key, { required }] of callee.params) {
      if (required && !keys(given).includes(key)) fail(place(file.name, module.node), `${name} lacks the parameter ${key} of ${module.file}`)
    }
  }
  for (const node of all(file.root, 'member_expression')) {
    const [object, member] = node.namedChildren
    if (object.type === 'member_expression' && object.namedChild(1).text === 'outputs') {
      const module = file.modules.get(object.namedChild(0).text)
      if (!files.get(module?.file)?.outputs.has(member.text)) fail(place(file.name, node), `${node.text}: there is no such output`)
    }
    // A parameter with a named type has only that type's properties.
    const loop = file.root.text.match(new RegExp(`for ${object.text} in (\\w+):`)) // a loop over a list
    const type = object.type === 'identifier' && file.params.get(loop?.[1] ?? object.text)?.type.text.replace('[]', '')
    const declared = [...files.values()].map((f) => f.types.get(type)).find(Boolean)
    if (declared && !new RegExp(`\\b${member.text}:`).test(declared.text)) fail(place(file.name, node), `${type} has no ${member.text}`)
  }
  for (const id of all(file.root, 'identifier')) {
    const parent = id.parent
    const key = parent.type === 'object_property' && parent.namedChild(0).equals(id)
    const called = parent.type === 'call_expression' && parent.childForFieldName('function')?.equals(id)
    if (parent.type.endsWith('_declaration') || key || called || parent.type.startsWith('import') || all(file.root, 'type').some((t) => within(id, t))) continue
    if (!file.names.has(id.text)) fail(place(file.name, id), `${id.text} is declared nowhere`)
  }
}

function within(node, outer) {
  return node.startIndex >= outer.startIndex && node.endIndex <= outer.endIndex
}

// If an identity is deleted and created again, it gets another assignment. Each connection names the identity that signs in.
for (const file of files.values()) {
  for (const node of all(file.root, 'resource_declaration')) {
    if (node.text.includes('roleAssignments@') && !/name: guid\(.*\bprincipalId\b/.test(node.text)) fail(place(file.name, node), 'its name lacks the principal')
  }
  for (const [, name] of file.root.text.matchAll(/(\S+)__credential/g)) {
    if (!file.root.text.includes(`${name}__clientId`)) fail(`infra/${file.name}`, `${name}__clientId is missing`)
  }
}

// The roles must be assigned before the app is created.
const main = files.get('main.bicep')
for (const [name, module] of main.modules) {
  if (module.file !== 'app.bicep') continue
  const after = all(property(module.body, 'dependsOn') ?? module.body, 'identifier').map((n) => n.text)
  for (const [other, { file }] of main.modules) {
    if (file === 'access.bicep' && !after.includes(other)) fail('infra/main.bicep', `${name} does not depend on ${other}`)
  }
}

const parameters = Object.keys(JSON.parse(readFileSync(join(infra, 'main.parameters.json'), 'utf8')).parameters)
for (const p of parameters) if (!main.params.has(p)) fail('infra/main.parameters.json', `main.bicep has no parameter ${p}`)
for (const [p, { required }] of main.params) if (required && !parameters.includes(p)) fail('infra/main.parameters.json', `${p} is missing`)
for (const [, name] of readFileSync(join(infra, '..', 'azure.yaml'), 'utf8').matchAll(/"\$(\w+)"/g)) {
  if (!main.outputs.has(name)) fail('azure.yaml', `main.bicep has no output ${name}`)
}

for (const name of ['Dockerfile', 'infra/Dockerfile']) {
  for (const d of validate(readFileSync(join(here, '..', '..', name), 'utf8'))) fail(`${name}:${d.range.start.line + 1}`, d.message)
}

if (spawnSync('bicep', ['--version']).status === 0) {
  for (const args of [['build', '--stdout'], ['lint']]) {
    const { status, stderr } = spawnSync('bicep', [...args, join(infra, 'main.bicep')], { encoding: 'utf8' })
    if (status !== 0 || stderr.includes('Warning')) fail(`bicep ${args[0]}`, stderr)
  }
} else {
  console.log('!! bicep is not on PATH: the templates were parsed by tree-sitter, which knows no types and no resources')
}
if (failures > 0) process.exit(1)
console.log(`${files.size} Bicep files, ${[...files.values()].reduce((n, f) => n + f.modules.size, 0)} modules and the Dockerfiles fit together`)
